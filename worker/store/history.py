"""The history of a plan's steps from its log: attempts with their ends, and revisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError
from redis import Redis

from schemas import codec
from schemas.base import FailureCategory, Mode
from schemas.outcome import GivenInstructions, Outcome, Transcript
from schemas.stored.step import TEXTS, read_texts, unpack_step
from schemas.times import rfc3339
from tasks.features.unverified import failure_without_proof
from tasks.policy.claimant import MAX_REASON
from tasks.policy.outcome_verdict import doubt, failure_of
from tasks.text.fields import as_written, fit
from worker.store.keys import PlanKeys

LOG_PAGE = 500
JSON_LINES = "application/jsonl"  # the media type of lines over HTTP

_RESULTS = {"ACTIVE": "RETRIED"}  # moves that are shown under another name
_TOLD_BESIDE = frozenset({"step_id", "attempt", "category"})  # fields of a revision that its attempt shows already

Story = dict[str, list[dict[str, Any]]]  # step -> what happened to it, in order


def story(client: Redis, k: PlanKeys) -> Story:
    """Return the attempts of every step that was tried, each with the revision before the next one."""
    return story_in(client, k, list(read_log(client, k)))


def story_in(client: Redis, k: PlanKeys, lines: Sequence[dict[str, Any]]) -> Story:
    """Return the attempts that end in these lines of a plan's log."""
    steps = sorted({step for line in lines for step, *_ in _ends(line)})
    return story_of(lines, read_facts(client, k, steps))


def read_facts(client: Redis, k: PlanKeys, steps: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the static parts of the existing `steps`, with every field."""
    if not steps:
        return {}
    raw_texts, *found = cast("list[bytes | None]", client.hmget(k.steps, [TEXTS, *steps]))
    texts = read_texts(raw_texts)
    return {step: unpack_step(raw, texts) for step, raw in zip(steps, found, strict=True) if raw}


def story_of(lines: Iterable[dict[str, Any]], facts: Mapping[str, dict[str, Any]]) -> Story:
    """Return the story of the lines of a log. Pure."""
    found: Story = {}
    waiting: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}  # for a baseline: the entry, its outcome
    for line in lines:
        results = {step: after for step, _, after in line["moves"] if step}
        revisions = {one["step_id"]: one for one in line.get("revisions", ()) if "step_id" in one}
        findings = dict(_findings(line))
        ends = tuple(_ends(line))
        ended = {step for step, *_ in ends}
        for step in waiting.keys() & (results.keys() | revisions.keys() | ended):
            entry, red = waiting.pop(step)
            after = "ACTIVE" if step in ended else results.get(step, "ACTIVE")
            entry |= {"result": _RESULTS.get(after, after), **_excuse(after, red, facts.get(step))}
        handed_back = {said[1] for said in line["in"] if said[0] == "handed back"}
        for step, attempt, outcome, reason in ends:
            known = found.setdefault(step, [])
            result, number = results.get(step, ""), attempt or len(known) + 1
            entry = {
                "attempt": number,
                "at": rfc3339(line["now"]),
                "result": _RESULTS.get(result, result),
                **_cause(facts.get(step), outcome, reason, failed=result != "DONE"),
                **_excuse(result, outcome, facts.get(step)),
            }
            if outcome and not result:
                waiting[step] = entry, outcome
            entry |= findings.get((step, number), {})
            entry |= _place(outcome) | _instructions(outcome)
            if outcome and step in handed_back:
                entry |= _handed_back(outcome)
            if revised := revisions.get(step):
                entry["revision"] = {name: value for name, value in revised.items() if name not in _TOLD_BESIDE}
            known.append(entry)
        for step, revised in revisions.items():
            if found.get(step) and step not in ended:  # by the result of a pre-step
                found[step][-1]["revised_later"] = {n: value for n, value in revised.items() if n not in _TOLD_BESIDE}
    return found


def outcomes_in(line: dict[str, Any]) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    """Yield the outcomes in a line of a log, each with its step and its attempt, if that is known."""
    for step, attempt, outcome, _ in _ends(line):
        if outcome:
            yield step, attempt, outcome


def sent_of(outcome: dict[str, Any]) -> str | None:
    """Return the digest of the transcript that a controller sent, as its outcome names it."""
    sent: str | None = _place(outcome).get("transcript", {}).get("sent")
    return sent


def _handed_back(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the view of an attempt that was handed back, or whose verification could not run."""
    said = outcome.get("released")
    told = said or outcome.get("cannot_verify") or {}
    reason = fit(told.get("reason") or outcome.get("error_message") or "", MAX_REASON, as_written)
    return {
        "result": "RELEASED",
        "category": None if said else FailureCategory.CANNOT_VERIFY.value,
        "reason": reason or None,
    }


def _excuse(result: str, outcome: dict[str, Any] | None, facts: dict[str, Any] | None) -> dict[str, Any]:
    """Return the reason if a step is done in spite of failing tests: they failed before the plan. Else return {}."""
    if result != "DONE" or not outcome:
        return {}
    tests = outcome.get("failing_tests") or ()
    is_patch = (facts or {}).get("mode") == Mode.PATCH
    if outcome["success"] and not (
        is_patch and tests and any(each["exit_code"] for each in outcome.get("verify") or ())
    ):
        return {}
    return {"category": None, "reason": fit(f"red before the plan: {', '.join(tests)}", MAX_REASON)}


def _place(outcome: dict[str, Any] | None) -> dict[str, Any]:
    """Return the location of the transcript, if the controller reported it. Logs contain unchecked outcomes."""
    try:
        said = Transcript.model_validate((outcome or {}).get("transcript"))
    except ValidationError:
        return {}
    return {"transcript": {"host": said.host, "path": said.path, "digest": said.digest, "sent": said.sent}}


def _instructions(outcome: dict[str, Any] | None) -> dict[str, Any]:
    """Return the repository's own instructions that the agent received, as its controller reported them."""
    try:
        reported = GivenInstructions.model_validate((outcome or {}).get("instructions"))
    except ValidationError:
        return {}
    return {"instructions": {"given": dict(reported.given), "left_out": reported.left_out}}


def _findings(line: dict[str, Any]) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    """Yield step, attempt and reason for each success that the planner did not accept."""
    for what, *said in line["in"]:
        if what == "output refused":  # the plan could not use its answer
            yield (said[0], said[1]), {"category": FailureCategory.OUTPUT_REFUSED.value, "reason": said[2]}
        elif what == "no change":
            yield (said[0], said[1]), {"category": FailureCategory.NO_CHANGE.value, "reason": "no file was changed"}


def _ends(line: dict[str, Any]) -> Iterator[tuple[str, int | None, dict[str, Any] | None, str]]:
    """Yield the attempts that ended in this line: step, attempt, its outcome or None, and the reason without one."""
    for what, *said in line["in"]:
        if what == "outcome":
            yield said[2]["step_id"], said[0], said[2], ""
        elif what == "expired":
            yield said[0], said[1], None, said[3]


def _cause(facts: dict[str, Any] | None, said: dict[str, Any] | None, reason: str, *, failed: bool) -> dict[str, Any]:
    """Return category and reason of an attempt's failure, as the planner judged it.

    Without an outcome (`said` is None) the category is LEASE_EXPIRED. Unless the attempt `failed`, both are None.
    """
    if said is None:
        return {"category": "LEASE_EXPIRED", "reason": reason}
    failure = None
    if failed and facts:
        outcome = Outcome.model_validate(said)
        failure = failure_of(facts, outcome)
        if not failure and (why := doubt(facts, outcome, requires_receipts=True)):  # it contradicts nothing else
            failure = failure_without_proof(why)
    if not failure:
        return {"category": None, "reason": None}
    return {"category": failure["category"], "reason": failure["suggestion"] or failure["trace"]}


def find_command(client: Redis, k: PlanKeys, command_id: str) -> tuple[dict[str, Any], str | None] | None:
    """Return a command among the last ones of a plan, and the reason if it was refused.

    Returns None if the plan received none with this id lately.
    """
    raw: Any = client.hget(k.plan, "live")
    if raw is None or command_id not in codec.loads(raw).get("commands", ()):
        return None
    wanted = command_id.encode()
    for last in range(-1, -(10**9), -LOG_PAGE):
        page: Any = client.lrange(k.log, last - LOG_PAGE + 1, last)
        for line in reversed(page):
            for what, *said in codec.loads(line)["in"] if wanted in line else ():
                if what == "command" and said[0]["command_id"] == command_id:
                    return said[0], said[1] if len(said) > 1 else None
        if len(page) < LOG_PAGE:
            break
    return None


def read_lines(client: Redis, k: PlanKeys, first: int = 0, page_size: int = LOG_PAGE) -> Iterator[bytes]:
    """Yield the lines of a plan's log as they are stored, from number `first` (0: the oldest), read in pages."""
    for start in range(first, 10**9, page_size):
        page: Any = client.lrange(k.log, start, start + page_size - 1)
        yield from page
        if len(page) < page_size:
            return


def read_log(client: Redis, k: PlanKeys) -> Iterator[dict[str, Any]]:
    """Yield the lines of a plan's log, decoded."""
    return map(codec.loads, read_lines(client, k))
