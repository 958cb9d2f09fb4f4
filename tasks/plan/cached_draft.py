"""A plan's use of the plan cache: a completed plan puts its draft there, and another plan may begin from that draft.

The plan's head has `[PUT, field, seconds kept]`, or `[HIT, field, seconds kept, plan that the draft is from]`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from schemas import codec
from schemas.base import PlanState
from schemas.stored import PlanHead
from tasks.plan.changeset import KeptChange, kept_name
from tasks.text.json_in_prose import as_text
from tasks.text.sanitize import sanitize

CACHE = "plan_cache"  # the cache's name among the kept values of a repository
PUT: Final = "put"
HIT: Final = "hit"
DRAFT_NOTE = "draft"  # the note of a plan that has its draft for the cache
MOST = 100  # drafts of a tenant's repository
MAX_BYTES = 64 * 1024  # of an answer


class CachedDraft(NamedTuple):
    """A cached answer of a drafter, with its plan, its goal and the time when it was stored (ms)."""

    plan_id: str
    tenant: str
    repo: str
    drafter: str
    goal: str
    at: int
    output: Any


def read_draft(raw: bytes) -> CachedDraft | None:
    """Decode a cached draft; None if the bytes are no draft."""
    try:
        record = codec.loads(raw)
        draft = CachedDraft(*(record[name] for name in CachedDraft._fields))
    except (ValueError, LookupError, TypeError):
        return None
    return draft if all(isinstance(text, str) for text in draft[:5]) and type(draft.at) is int else None


def may_keep(output: Any) -> bool:
    """Return whether an answer may be cached: it exists, has at most MAX_BYTES, and sanitizing it finds nothing."""
    text = as_text(output)
    return output is not None and len(text.encode(errors="replace")) <= MAX_BYTES and not sanitize(text).findings


def change_at_end(head: PlanHead, state: str, plan_id: str, now: int, draft: Any) -> KeptChange | None:
    """Return the change of the cache at a plan's end; None if there is no change.

    A completed plan stores its draft. A plan that began from a cached draft and did not complete drops that draft,
    unless a newer plan has stored another one.
    """
    name = kept_name(CACHE, head.tenant, head.repo)
    if not head.cache or not name:
        return None
    what, field, kept_s, *source = head.cache
    if what == HIT and state != PlanState.COMPLETED:
        return KeptChange(name, field, b"", MOST, kept_s, *source[:1])
    if what == PUT and state == PlanState.COMPLETED and draft and draft.get("output") is not None:
        return KeptChange(name, field, codec.dumps({**draft, "plan_id": plan_id, "at": now}), MOST, kept_s)
    return None
