"""What a reviewer says, put into qr-{phase}.json: the first review makes the items, every review decides them.

Unlike in the first implementation a PASS may be checked again, since a fix can break what was right (spec B4.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from schemas.review_qr import MAX_ITEMS, ItemStatus, QrFile, QrItem, Review, ReviewedItem, Severity
from tasks.strategies.reviewed_plan.gate import blocking
from tasks.strategies.reviewed_plan.operations import Refused
from tasks.strategies.reviewed_plan.words import told
from tasks.text.fields import fit

MAX_FINDING = 2000


def reviewed(file: QrFile, review: Review, severities: Collection[Severity]) -> QrFile:
    """Decide the items as the review says; Refused where it leaves one open or gives no ground."""
    known = {item.id: item for item in file.items}
    if wrong := told(_faults(file, review, severities)):
        raise Refused(wrong)
    for said in review.items:
        known[said.id] = _decided(known.get(said.id), said)
    if len(known) > MAX_ITEMS:
        raise Refused(f"too_many: a review may have {MAX_ITEMS} items")
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
            yield f"invalid: {said.id} is new and does not say what it checks"
    yield from (f"undecided: {item.id} blocks" for item in blocking(file, severities) if item.id not in times)


def _decided(item: QrItem | None, said: ReviewedItem) -> QrItem:
    """Decide an item; what is checked and how much it matters stays as it was when the item was made."""
    failed = said.status is ItemStatus.FAIL
    base = item or _new(said)
    return base.model_copy(
        update={
            "status": said.status,
            "finding": fit(said.finding or "", MAX_FINDING) if failed else None,
            "version": base.version + (item is not None),
            "fail_count": base.fail_count + failed,
        }
    )


def _new(said: ReviewedItem) -> QrItem:
    return QrItem(
        id=said.id,
        scope=fit(said.scope or "*", 1000),
        check=fit(said.check or "", 1000),
        severity=said.severity or Severity.SHOULD,
    )
