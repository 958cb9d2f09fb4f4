"""What a plan has to do with the plan cache: its draft is put there once it is completed, or was taken from there.

A plan says so in its head: `[PUT, field, seconds kept]`, or `[HIT, field, seconds kept, plan it is from]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas import codec
from schemas.base import PlanState
from schemas.stored import PlanHead
from tasks.plan.changeset import KeptChange, kept_name

CACHE = "plan_cache"  # of what plans of a repository keep for each other
PUT: Final = "put"
HIT: Final = "hit"
DRAFT_NOTE = "draft"  # the note of a plan that has what it would put there
MOST = 100  # drafts of a tenant's repository


def awaits_end(head: PlanHead) -> bool:
    """Whether a plan that is completed puts its draft into the cache."""
    return head.cache is not None and head.cache[0] == PUT


def change_at_end(
    head: PlanHead, state: str, plan_id: str, now: int, draft: Mapping[str, Any] | None
) -> KeptChange | None:
    """Put the draft of a plan that is completed, or drop the one that a plan rested on which was not completed.

    What a newer plan has put there since stays.
    """
    if not head.cache or not (name := kept_name(CACHE, head.tenant, head.repo)):
        return None
    what, field, kept_s, *source = head.cache
    completed = state == PlanState.COMPLETED
    if what == HIT and not completed:
        return KeptChange(name, field, b"", MOST, kept_s, *source[:1])
    if what != PUT or not completed or not draft or "output" not in draft:
        return None
    return KeptChange(name, field, codec.dumps({**draft, "plan_id": plan_id, "at": now}), MOST, kept_s)
