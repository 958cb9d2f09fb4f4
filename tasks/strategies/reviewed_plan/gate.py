"""A gate: the items of a review, and the verdict that follows from the items or the reviewer's claim.

The first review makes the items, and every review decides them. A later review may check a passed item again, because a
fix can break it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from schemas.kinds.reviewed_plan import Loop, SeverityRow
from schemas.kinds.reviewed_plan_files import (
    MAX_ITEMS,
    GateRecord,
    GateVerdict,
    ItemStatus,
    LoopState,
    QrFile,
    QrItem,
    Review,
    ReviewedItem,
    Severity,
)
from tasks.base.errors import IllegalTransition
from tasks.strategies.reviewed_plan.operations import AnswerRefused
from tasks.strategies.reviewed_plan.words import MAX_FAULTS, sum_up
from tasks.text.fields import fit

MUST, SHOULD, COULD = Severity
EVERY, SERIOUS, ONLY_MUST = (MUST, SHOULD, COULD), (MUST, SHOULD), (MUST,)

Schedule = tuple[tuple[int, tuple[Severity, ...]], ...]

# The first iteration of each row, and its blocking severities; `seed` is the default of a goal.
SCHEDULES: Mapping[str, Schedule] = {
    "seed": ((1, EVERY), (3, SERIOUS), (5, ONLY_MUST)),
    "early": ((1, EVERY), (3, SERIOUS), (4, ONLY_MUST)),
    "late": ((1, EVERY), (4, SERIOUS), (5, ONLY_MUST)),
}

# INITIAL and RETRY move by pass or fail; COMPLETE is the end.
MOVES: Mapping[tuple[LoopState, bool], LoopState] = {
    (LoopState.INITIAL, True): LoopState.COMPLETE,
    (LoopState.INITIAL, False): LoopState.RETRY,
    (LoopState.RETRY, False): LoopState.RETRY,
    (LoopState.RETRY, True): LoopState.COMPLETE,
}

MAX_FINDING = 2000


def schedule_of(given: str | Sequence[SeverityRow]) -> Schedule:
    """Return a severity schedule by its name, or made from the rows that a goal brings."""
    if isinstance(given, str):
        return SCHEDULES[given]
    return tuple((row.from_iteration, row.blocks) for row in given)


def schedule_faults(schedule: Schedule) -> Iterator[str]:
    """Yield each fault of a severity schedule: it has to begin at iteration 1, go up, and block MUST in every row."""
    starts = [start for start, _ in schedule]
    if not starts or starts[0] != 1 or sorted(set(starts)) != starts:
        yield "A severity schedule begins at iteration 1 and goes up."
    if not all(MUST in blocks for _, blocks in schedule):
        yield "MUST blocks at every iteration."


def severities_at(schedule: Schedule, iteration: int) -> tuple[Severity, ...]:
    """Return the severities that block at `iteration`."""
    return [row for start, row in schedule if start <= iteration][-1]


def move(loop: Loop, passed: bool) -> Loop:
    """Return the loop after the verdict of its gate; a FAIL begins the next iteration. Raises IllegalTransition."""
    state = MOVES.get((loop.state, passed))
    if state is None:
        raise IllegalTransition(f"The loop is {loop.state} and does not move any more.")
    return loop.model_copy(update={"state": state, "iteration": loop.iteration + (not passed)})


def blocking_items(file: QrFile, severities: Collection[Severity]) -> tuple[QrItem, ...]:
    """Return the items that block the gate, undecided ones included."""
    wrong = (item for item in file.items if item.status is not ItemStatus.PASS and not item.accepted)
    return tuple(item for item in wrong if item.severity in severities)


def open_musts(file: QrFile) -> tuple[QrItem, ...]:
    """Return the MUST items that neither passed nor were accepted."""
    return blocking_items(file, ONLY_MUST)


def uncount(file: QrFile) -> QrFile:
    """Return the file with the fail counts before the last review, because this review is repeated."""
    items = (
        item.model_copy(update={"fail_count": max(item.fail_count - (item.status is ItemStatus.FAIL), 0)})
        for item in file.items
    )
    return file.model_copy(update={"items": tuple(items)})


def accept(file: QrFile, ids: Collection[str], reason: str) -> QrFile:
    """Return the file with these items accepted although they failed, with the reason."""
    change = {"accepted": True, "acceptance_reason": reason}
    items = (
        item.model_copy(update={**change, "version": item.version + 1}) if item.id in ids else item
        for item in file.items
    )
    return file.model_copy(update={"items": tuple(items)})


def converge(file: QrFile, severities: Collection[Severity], cap: int | None) -> QrFile:
    """Return the file after accepting the blocking items below MUST that failed as often as `cap` allows."""
    worn = {item.id for item in capped_items(file, severities, cap) if item.severity is not MUST}
    return accept(file, worn, f"Failed {cap} times and is no MUST.") if worn else file


def capped_items(file: QrFile, severities: Collection[Severity], cap: int | None) -> tuple[QrItem, ...]:
    """Return the blocking items that failed as often as `cap` allows; empty without a cap."""
    return tuple(item for item in blocking_items(file, severities) if cap is not None and item.fail_count >= cap)


def judge(file: QrFile, severities: tuple[Severity, ...], claimed: str | None) -> GateRecord:
    """Return the record of a gate; `claimed` is the reviewer's verdict, PASS, FAIL or none.

    The gate passes if the reviewer claims PASS, or if no item blocks at this iteration. A PASS with open MUST findings
    is `unverified`.
    """
    shut = blocking_items(file, severities)
    by_items = GateVerdict.FAIL if shut or not file.items else GateVerdict.PASS
    verdict = GateVerdict.PASS if claimed == GateVerdict.PASS and file.items else by_items
    counts: dict[Severity, dict[ItemStatus, int]] = {}
    for item in file.items:
        row = counts.setdefault(item.severity, {})
        row[item.status] = row.get(item.status, 0) + 1
    return GateRecord(
        phase=file.phase,
        iteration=file.iteration,
        verdict=verdict,
        blocks=severities,
        counts=counts,
        blocking=tuple(item.id for item in shut),
        findings=tuple(
            fit(f"{item.id} {item.check}: {item.finding or 'undecided'}", 200) for item in shut[:MAX_FAULTS]
        ),
        claimed=claimed or None,
        contradicted=bool(claimed) and claimed != by_items.value,
        unverified=verdict is GateVerdict.PASS and bool(open_musts(file)),
        accepted=tuple(item.id for item in file.items if item.accepted),
    )


def take_review(file: QrFile, review: Review, severities: Collection[Severity]) -> QrFile:
    """Return the file with its items decided by a review.

    Raises AnswerRefused if the review leaves out an item or a reason, or has too many items.
    """
    known = {item.id: item for item in file.items}
    if wrong := sum_up(_faults(file, review, severities)):
        raise AnswerRefused(wrong)
    for said in review.items:
        known[said.id] = _decide(known.get(said.id), said)
    if len(known) > MAX_ITEMS:
        raise AnswerRefused(f"too_many: a review may have {MAX_ITEMS} items")
    return file.model_copy(update={"items": tuple(known.values())})


def _faults(file: QrFile, review: Review, severities: Collection[Severity]) -> Iterator[str]:
    known = {item.id for item in file.items}
    times = Counter(said.id for said in review.items)
    yield from (f"invalid: {name} is decided {count} times" for name, count in times.items() if count > 1)
    for said in review.items:
        if said.status is ItemStatus.TODO:
            yield f"undecided: {said.id} is still TODO; every item is PASS or FAIL"
        if said.status is ItemStatus.FAIL and said.finding is None:
            yield f"invalid: {said.id} is a FAIL without a finding"
        if said.status is ItemStatus.PASS and said.finding is not None:
            yield f"invalid: {said.id} is a PASS with a finding"
        if said.id not in known and said.check is None:
            yield f"invalid: {said.id} is new and has no description of its check"
    yield from (f"undecided: {item.id} blocks" for item in blocking_items(file, severities) if item.id not in times)


def _decide(item: QrItem | None, said: ReviewedItem) -> QrItem:
    """Return an item with the status and finding of a review; its check and severity never change."""
    failed = said.status is ItemStatus.FAIL
    base = item or QrItem(
        id=said.id,
        scope=fit(said.scope or "*", 1000),
        check=fit(said.check or "", 1000),
        severity=said.severity or Severity.SHOULD,
    )
    return base.model_copy(
        update={
            "status": said.status,
            "finding": fit(said.finding or "", MAX_FINDING) if failed else None,
            "version": base.version + (item is not None),
            "fail_count": base.fail_count + failed,
        }
    )
