"""Finds the files that an attempt created: touched files that the goal's complete listing does not contain.

A step with patterns may create files, and its plan bounds their number. If the goal has a complete listing, the planner
does not rely on the controller's report. A note keeps a short digest of each listed file.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from schemas.goal import Goal
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import AFTER_END, AT_BIRTH, JUDGES, LIMITS, Feature, Judgement, always
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Draft
from tasks.text.paths import clean

LISTED = "files_listed"  # among limits, 1: the note has a whole listing
LISTING = "listing"  # the note: digests of its files
SIZE = 4  # bytes of one
MOST_KNOWN = 1000  # created files of a plan


def limits_of(_: PlanSeed, goal: Goal, draft: Draft) -> Mapping[str, int]:
    """Return the limit that makes the plan store the goal's complete listing, if a step may have patterns."""
    is_wide = draft.state is not None or any(step.allowed_patterns for step in draft.steps)
    return {LISTED: 1} if goal.context.files_complete and is_wide else {}


def keep_listing(unit: UnitOfWork, _: PlanSeed, goal: Goal, __: Draft) -> None:
    """Store digests of the listed files."""
    if unit.plan.limits.get(LISTED):
        digests = b"".join(sorted({_digest(clean(path)) for path in goal.context.files}))
        unit.keep_note(LISTING, b64encode(digests).decode())


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Set the created files of an outcome to the touched files that the goal's listing does not contain.

    The controller's own report of created files does not count then. Always returns false.
    """
    outcome = seen.outcome
    touched = dict.fromkeys((*outcome.touched_files, *outcome.created_files))
    if touched and unit.plan.limits.get(LISTED):
        created = tuple(_unlisted(unit, touched))
        if created != outcome.created_files:
            seen.outcome = outcome.model_copy(update={"created_files": created})
    return False


def _unlisted(unit: UnitOfWork, paths: Iterable[str]) -> Iterable[str]:
    digests = b64decode(unit.note(LISTING) or "")
    known = {digests[place : place + SIZE] for place in range(0, len(digests), SIZE)}
    created = frozenset(unit.plan.created_files.known)
    return (path for path in paths if _digest(path) not in known and path not in created)


def note_created(unit: UnitOfWork, seen: Judgement) -> None:
    """Add the created files of a done step to the known files."""
    if seen.outcome.created_files and unit.plan.limits.get(LISTED):
        kept = unit.plan.created_files
        kept.known = [*dict.fromkeys((*kept.known, *seen.outcome.created_files))][:MOST_KNOWN]


def _digest(path: str) -> bytes:
    return blake2b(path.encode(errors="replace"), digest_size=SIZE).digest()


FEATURE = Feature(
    "created_files",
    (
        LIMITS.row(limits_of),
        AT_BIRTH.row(keep_listing),
        JUDGES.row(judge, fact="allowed_patterns"),
        AFTER_END.row(note_created),
    ),
    is_idle=always,
    end_fields=("allowed_patterns",),
)
