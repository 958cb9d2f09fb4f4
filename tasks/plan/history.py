"""What plans of one kind and repository leave to those that come after them: counters.

They lie in the partition of the plan, which its repository chooses, so a plan's own commits write them.
"""

from __future__ import annotations

from hashlib import blake2b

from schemas.base import PlanState as P
from schemas.stored import PlanHead
from tasks.plan.changeset import Recall


def name_of(head: PlanHead) -> str | None:
    """Name the counters that a plan shares with others of its kind, tenant and repository; None without repository."""
    return name(head.kind, head.tenant, head.repo)


def name(kind: str, tenant: str, repo: str | None) -> str | None:
    """Name the counters of a kind, tenant and repository."""
    return blake2b(f"{kind}\0{tenant}\0{repo}".encode(), digest_size=16).hexdigest() if repo else None


def end_of(head: PlanHead, state: str, rule: str) -> list[Recall]:
    """Tell what the end of a plan changes: its streak of failures grows or is over; an operator's end does neither."""
    owner = name_of(head)
    if owner is None or head.streak is None or rule == "manual" or state == P.REJECTED:
        return []
    return [Recall(owner, head.streak, "", "" if state == P.COMPLETED else 1)]
