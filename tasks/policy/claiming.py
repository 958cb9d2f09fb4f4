"""Claims on files, as features use them: read them, change the plan's own, and let steps wait."""

from __future__ import annotations

from collections.abc import Iterable

from tasks.base.errors import NeedsClaims
from tasks.plan.changeset import ClaimChange, claims_name
from tasks.plan.file_claims import FileClaims
from tasks.plan.unit_of_work import UnitOfWork

DELIVERS = "delivery_wait_s"  # among the limits of a plan that ends with a delivery
LOOK_MS = 60_000  # between two looks at a plan that waits; the end of the plan before it brings the next one forward


def read(unit: UnitOfWork, files: Iterable[str], *, deep: bool) -> FileClaims:
    """Return the claims that the snapshot contains.

    Raises NeedsClaims if the snapshot lacks the claims on `files`, or with `deep` the waits of plans. If another plan
    claims a file, the plan's log keeps the claims that were read.
    """
    claims, me = unit.snapshot.claims, unit.snapshot.plan_id
    wanted = frozenset(files)
    if claims is None or not claims.knows(wanted, deep=deep):
        raise NeedsClaims(wanted, deep=deep)
    if claims.are_others(me):
        unit.around["claims"] = claims.tell()
    return claims


def put(unit: UnitOfWork, file: str, seen: str, claim: str, where: str = "") -> None:
    """Change the claims on a file: see ClaimChange."""
    head = unit.plan.head
    unit.change.claims.append(ClaimChange(claims_name(head.tenant, head.repo or ""), file, seen, claim, where))


def keep_waiting(unit: UnitOfWork, waiting: dict[str, list[str]]) -> None:
    """Store which steps wait for which file and plan; if any waits, look at the plan again after LOOK_MS."""
    if waiting != unit.plan.claims.waits:
        unit.plan.claims.waits = waiting
        unit.plan.dirty.add("live")
    if waiting:
        unit.wake_at(unit.snapshot.now + LOOK_MS)
