"""Why a plan halted, for a person: a sentence, the failed tests, and the next steps with their values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import GoalKind
from schemas.outcome import Outcome
from schemas.plan import Halt, PlanView
from schemas.result import FailureResult, Way
from tasks.text.paths import fault
from worker.render.time_line import AttemptTimes

MOST_TESTS = 20
MOST_LINES = 15
MOST_FILES = 10  # that one button allows
RAISE = re.compile(r"raise limits\.([a-z_]+) from \S+ to at least (\d{1,10})")
SENTENCES = {
    "flaky": "A verification passed and failed on the same code.",
    "file_growth": "It made more or larger files than its limits allow.",
    "lease_deaths": "Its controllers died or stopped renewing their claims too often.",
    "nobody_can": "No controller could begin a step.",
    "cannot_verify": "No controller could run the verification.",
    "integrity": "Its change weakened tests or checks, and was refused twice.",
    "passes_at_base": "The failing tests of the goal pass already.",
    "already_fixed": "The failing tests of the goal pass on its target branch by now.",
    "conflict": "Its target branch has moved, and its changes conflict with that.",
    "approval_rejected": "A person rejected a step.",
    "approval_deadline": "No person approved a step in time.",
    "answer_deadline": "No answer to its question came in time.",
    "planning_failed": "The drafts for the goal gave no usable plan.",
    "clarification_limit": "Its objective was still unclear after every question.",
    "review_stopped": "A person stopped it at a review.",
    "overlap": "Other plans change the same files.",
}
FAILED = frozenset({"consecutive_failures", "identical_failure", "cannot_revise"})
UNITS = {"wall_clock_s": "time"}


def sentence_of(halt: Halt, attempts: Sequence[AttemptTimes]) -> str:
    """Return why a plan halted in words for a person; if there are none, the reason of its rule."""
    last = _last(attempts)
    if halt.rule in FAILED and last:
        count = sum(each.step_id == last.step_id and _failed(each) for each in attempts)
        what = "The tests still fail" if _tests(last) else f"Step {last.step_id} still fails"
        return f"{what} after {count:,} attempt{'' if count == 1 else 's'}."
    if halt.rule == "budget":
        return f"It used up its {_name(halt.evidence.get('limit_name'))} before it was done."
    if halt.rule == "wall_clock":
        return "It took longer than its time limit."
    if halt.rule == "security":
        if halt.evidence.get("value") == C.ALLOWLIST_VIOLATION:
            return "An attempt changed files that its step may not change."
        return "An attempt broke a rule for all steps, so the plan was stopped."
    if halt.rule == "manual":
        return f"{halt.evidence.get('actor') or 'An operator'} ended it."
    return SENTENCES.get(halt.rule, halt.reason)


def failure_of(view: PlanView, attempts: Sequence[AttemptTimes]) -> FailureResult | None:
    """Return the last failed attempt of a halted plan, and the ways to continue; None for any other plan."""
    if view.halt is None or view.halt.rule == "rejected":
        return None
    last = _last(attempts)
    tests = _tests(last) if last else []
    return FailureResult(
        step_id=last.step_id if last else None,
        attempt=last.attempt if last else None,
        tests=tuple(tests[:MOST_TESTS]),
        more_tests=max(0, len(tests) - MOST_TESTS),
        output=_output(last) if last else "",
        ways=tuple(_ways(view, view.halt, last)),
    )


def _ways(view: PlanView, halt: Halt, last: AttemptTimes | None) -> Iterator[Way]:
    for name, value in RAISE.findall(str(halt.evidence.get("unblock") or "")):
        text = f"Raise the limit of {_name(name)} to {int(value):,} and start again"
        yield Way(text=text, values={"limit": name, "limit_value": value})
    files = [*_outside(view, last)] if halt.rule == "security" and last else []
    files += [path for need in view.needs for path in need.files]
    if files := [path for path in dict.fromkeys(files) if not fault(path)][:MOST_FILES]:
        yield Way(text=f"Allow {', '.join(files)} and start again", values={"allow": "\n".join(files)})
    if last and view.kind == GoalKind.TASK and view.counts.get("DONE") and not _is_inserted(view, last.step_id):
        yield Way(
            text=f"Take over the steps that are done, and retry from {last.step_id}", values={"from_step": last.step_id}
        )
    yield Way(text="Start again")


def _is_inserted(view: PlanView, step_id: str) -> bool:
    return any(step.step_id == step_id and step.inserted_by for step in view.steps)


def _outside(view: PlanView, last: AttemptTimes) -> Iterator[str]:
    """Yield the files that an attempt changed or created although its step does not name them."""
    said = Outcome.model_validate(last.told)
    allowed = {path for step in view.steps if step.step_id == last.step_id for path in step.allowed_files}
    yield from (path for path in (*said.touched_files, *said.created_files) if path not in allowed)


def _failed(attempt: AttemptTimes) -> bool:
    return attempt.ended is not None and attempt.result not in ("DONE", "RELEASED", "SKIPPED")


def _last(attempts: Sequence[AttemptTimes]) -> AttemptTimes | None:
    """Return the newest failed attempt of all steps that no attempt has done; None if there is none."""
    done = {each.step_id for each in attempts if each.result == "DONE"}
    return next((each for each in reversed(attempts) if _failed(each) and each.told and each.step_id not in done), None)


def _tests(attempt: AttemptTimes) -> list[str]:
    said = Outcome.model_validate(attempt.told)
    return [*(said.failing_tests or (said.failure_evidence.top_failing_tests if said.failure_evidence else ()))]


def _output(attempt: AttemptTimes) -> str:
    said = Outcome.model_validate(attempt.told)
    trace = said.failure_evidence.stack_trace_head if said.failure_evidence else None
    text = trace or said.error_message or ""
    return "\n".join(text.rstrip().splitlines()[-MOST_LINES:])


def _name(limit: Any) -> str:
    name = str(limit or "budget")
    return UNITS.get(name, name.replace("_", " "))
