"""The result of a plan, from the plan and the receipts of its attempts. Pure; all interfaces show this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import Any

from schemas import codec
from schemas.base import Mode, PlanState, StepType
from schemas.outcome import Outcome
from schemas.plan import PlanView, StepView
from schemas.result import (
    AnswerResult,
    FileResult,
    IntegrityResult,
    PlanResult,
    Spent,
    StepResult,
    VerifiedBy,
)
from worker.render.delivery import WORDS
from worker.render.failure import failure_of, sentence_of
from worker.render.time_line import AttemptTimes
from worker.store.attachments import KeptDiff
from worker.store.named_digests import digest_of

MOST_FILES = 200  # of a plan
MOST_FILES_OF_STEP = 50
MOST_STEPS = 100
MOST_VERIFIED = 20
MOST_ANSWERS = 20
MAX_ANSWER = 4000  # characters
ANSWERING = frozenset({StepType.READ, StepType.EXPLORE, StepType.REVIEW, StepType.DOCUMENT})
OWN, SHARED = "refs/heads/planner/{}", "refs/planner/{}"  # refs of a plan: in one repository, and of a remote
NOT_SENT = "its controller sent no diff, or it was too large or too old to be kept"
NOT_KEPT = "diffs are not kept here (PLANNER_KEEP_DIFFS=off), or it was not taken in yet"

Facts = Mapping[str, Mapping[str, Any]]


def result_of(
    view: PlanView,
    attempts: Sequence[AttemptTimes],
    facts: Facts,
    diffs: Mapping[str, KeptDiff],
    now: datetime,
    unread: str = "",
) -> PlanResult:
    """Return the result of a plan.

    `facts` has the static parts of each tried step, and `diffs` the known data of each diff, by its digest. If the
    `attempts` could not be read, `unread` has the reason.
    """
    steps = {step.step_id: step for step in view.steps}
    done = [
        (steps[each.step_id], each, Outcome.model_validate(each.told))
        for each in attempts
        if each.result == "DONE" and each.told and each.step_id in steps
    ]
    changes = [_change(step, each, said, diffs) for step, each, said in done if _changed(step, said)]
    files = _joined(file for change in changes for file in change.files)
    verified = _verified(attempts, done, facts)
    answers = [_answer(step, said) for step, _, said in done if step.type in ANSWERING]
    is_whole = not any(change.more_files for change in changes)
    added, removed = (
        _sum(getattr(file, name) for file in files) if is_whole else None for name in ("added", "removed")
    )
    take, take_in = _take(view, changes)
    return PlanResult(
        plan_id=view.plan_id,
        state=view.state,
        sentence=sentence_of(view.halt, attempts)
        if view.halt and view.state == PlanState.HALTED
        else _sentence(view, files, added, removed, verified, len([each for each in answers if each])),
        failure=failure_of(view, attempts),
        files=tuple(files[:MOST_FILES]),
        more_files=max(0, len(files) - MOST_FILES) + sum(change.more_files for change in changes),
        added=added,
        removed=removed,
        steps=tuple(changes[:MOST_STEPS]),
        more_steps=max(0, len(changes) - MOST_STEPS),
        verified_by=tuple(verified[:MOST_VERIFIED]),
        unverified=view.unverified,
        doubt=view.doubt,
        integrity=IntegrityResult(
            looked_at=sum(said.integrity is not None for *_, said in done), places=view.integrity
        ),
        answers=tuple(filter(None, answers))[:MOST_ANSWERS],
        branch=view.branch,
        pull_request=view.pull_request,
        undelivered=view.undelivered,
        take=take,
        take_in=take_in,
        spent=_spent(view, attempts, now),
        unread=unread,
    )


def digests_of(attempts: Iterable[AttemptTimes]) -> list[str]:
    """Return the digests of the landed diffs."""
    done = (each.told.get("diff_hash") for each in attempts if each.result == "DONE")
    return [digest_of(name) for name in done if isinstance(name, str)]


def _changed(step: StepView, said: Outcome) -> bool:
    return step.mode == Mode.PATCH and bool(said.touched_files or said.created_files)


def _change(step: StepView, attempt: AttemptTimes, said: Outcome, diffs: Mapping[str, KeptDiff]) -> StepResult:
    diff = diffs.get(digest_of(said.diff_hash)) if said.diff_hash else None
    figures = {each.path: each for each in diff.files} if diff else {}
    created, deleted = frozenset(said.created_files), frozenset(said.deleted_files)
    paths = list(dict.fromkeys((*said.touched_files, *said.created_files)))
    files = [
        FileResult(
            path=path,
            kind="created" if path in created else "deleted" if path in deleted else "changed",
            added=figures[path].added if path in figures else None,
            removed=figures[path].removed if path in figures else None,
        )
        for path in paths[:MOST_FILES_OF_STEP]
    ]
    count = max(len(paths), said.touched_count or 0)
    return StepResult(
        step_id=step.step_id,
        title=step.title,
        attempt=attempt.attempt,
        files=tuple(files),
        more_files=count - len(files),
        added=sum(each.added for each in diff.files) if diff else None,
        removed=sum(each.removed for each in diff.files) if diff else None,
        commit=said.commit,
        ref=said.ref,
        diff_bytes=diff.size if diff and diff.size else None,
        no_diff="" if diff and diff.size else NOT_KEPT if diff else NOT_SENT,
    )


def _joined(files: Iterable[FileResult]) -> list[FileResult]:
    """Return the changes of several steps, merged to one for each file and sorted by path."""
    found: dict[str, FileResult] = {}
    for file in files:
        before = found.get(file.path)
        if before is None:
            found[file.path] = file
            continue
        kind = file.kind if file.kind == "deleted" else "created" if before.kind == "created" else "changed"
        lines = {name: _sum((getattr(before, name), getattr(file, name))) for name in ("added", "removed")}
        found[file.path] = FileResult(path=file.path, kind=kind, **lines)
    return [found[path] for path in sorted(found)]


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


def _verified(
    attempts: Sequence[AttemptTimes], done: Sequence[tuple[StepView, AttemptTimes, Outcome]], facts: Facts
) -> list[VerifiedBy]:
    """Return the last run of each verification tool in each folder, with its result at the plan's base."""
    before: dict[tuple[str, str], Any] = {}
    for each in attempts:
        said = Outcome.model_validate(each.told) if each.told.get("verified_at") else None
        for receipt in (said.verify if said else None) or ():
            before[receipt.tool, receipt.cwd or "."] = "green" if receipt.exit_code == 0 else "red"
    found: dict[tuple[str, str], VerifiedBy] = {}
    for step, _, said in done:
        tools = {tool["tool"]: tool for tool in facts.get(step.step_id, {}).get("verify_tools", ())}
        for receipt in () if said.verified_at else said.verify or ():
            tool, place = tools.get(receipt.tool, {}), (receipt.tool, receipt.cwd or ".")
            tests = receipt.tests
            found[place] = VerifiedBy(
                step_id=step.step_id,
                tool=receipt.tool,
                command=" ".join(tool.get("argv", ())) or step.verify,
                folder=place[1],
                before=before.get(place),
                now="green" if receipt.exit_code in tool.get("pass_codes", (0,)) else "red",
                passed=tests.passed if tests else None,
                failed=tests.failed if tests else None,
                skipped=tests.skipped if tests else None,
            )
    return list(found.values())


def _answer(step: StepView, said: Outcome) -> AnswerResult | None:
    output = said.output if step.answer is None else step.answer
    if not output:
        return None
    text = output if isinstance(output, str) else codec.dumps(output).decode()
    cut = len(text) > MAX_ANSWER
    return AnswerResult(step_id=step.step_id, title=step.title, text=text[:MAX_ANSWER], is_cut=cut)


def _take(view: PlanView, changes: Sequence[StepResult]) -> tuple[str, str]:
    """Return the command that fetches the landed changes, and the place to run it."""
    if view.branch:
        return f"git fetch origin {quote(view.branch)} && git merge FETCH_HEAD", "a clone of the repository"
    return take_of(view.plan_id, next((change.ref for change in reversed(changes) if change.ref), None))


def take_of(plan_id: str, ref: str | None) -> tuple[str, str]:
    """Return the command that fetches a ref, and the place to run it; empty unless the ref is the plan's own."""
    if ref == SHARED.format(plan_id):
        return f"git fetch origin {ref} && git merge FETCH_HEAD", "a clone of the repository"
    if ref == OWN.format(plan_id):
        return f"git merge planner/{plan_id}", "the repository of the controller"
    return "", ""


def _spent(view: PlanView, attempts: Sequence[AttemptTimes], now: datetime) -> Spent:
    ended = datetime.fromisoformat(view.ended_at) if view.ended_at else now
    over = [each for each in attempts if each.ended is not None]
    return Spent(
        tokens=view.budget.tokens.spent,
        cost_usd=view.cost_usd,
        seconds=max(0, int((ended - datetime.fromisoformat(view.created_at)).total_seconds())),
        attempts=len(over),
        failed_attempts=sum(each.result not in ("DONE", "RELEASED", "SKIPPED") for each in over),
    )


def _sentence(
    view: PlanView,
    files: Sequence[FileResult],
    added: int | None,
    removed: int | None,
    verified: Sequence[VerifiedBy],
    answers: int,
) -> str:
    """Return a sentence: the changes of a completed plan; for other plans how far they are, or why they wait."""
    lines = f" (+{added:,} -{removed:,} lines)" if files and added is not None and removed is not None else ""
    changed = f"changed {counted(len(files), 'file')}{lines}" if files else ""
    answered = f"{counted(answers, 'step')} answered" if answers else ""
    if view.state == PlanState.COMPLETED:
        did = [changed or ("" if answered else "changed no file"), answered, _proof(view, verified), _delivered(view)]
        text = "; ".join(filter(None, did))
        return f"{text[:1].upper()}{text[1:]}."
    if view.state == PlanState.REJECTED:
        return f"The goal was rejected: {view.halt.reason if view.halt else 'no reason is kept'}"
    so_far = f"; so far it {changed}" if changed else ""
    if view.waiting:
        what = "an approval" if view.waiting.kind == "approval" else "an answer"
        return f"It waits for a person: {what}{so_far}."
    done, total = view.counts.get("DONE", 0), sum(view.counts.values())
    return f"{done:,} of {counted(total, 'step')} {'is' if done == 1 else 'are'} done{so_far}."


def _proof(view: PlanView, verified: Sequence[VerifiedBy]) -> str:
    """Return the verifications that turned green, else those that are green, else that nothing verified the change."""
    turned = [each.tool for each in verified if each.before == "red" and each.now == "green"]
    green = [each.tool for each in verified if each.now == "green"]
    if turned:
        return f"{named(turned)} failed before and {'passes' if len(set(turned)) == 1 else 'pass'} now"
    if green:
        return f"{named(green)} {'passes' if len(set(green)) == 1 else 'pass'}"
    return "nothing verified it" if view.unverified else ""


def _delivered(view: PlanView) -> str:
    if view.undelivered:
        return "it was not delivered"
    if view.pull_request:
        return f"its pull request is {WORDS[view.delivery.state]}" if view.delivery else "a pull request is open"
    return f"it is on branch {view.branch}" if view.branch else ""


def counted(number: int, what: str) -> str:
    """Return a count with its noun, such as `1 file` or `2 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def named(words: Sequence[str]) -> str:
    """Return a list of names as text, such as `ruff and pytest`."""
    names = list(dict.fromkeys(words))
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
