"""Who works on a reviewed plan: each role is a queue (seed 002, "Components")."""

from __future__ import annotations

from enum import StrEnum

from schemas.review_plan import MilestoneFacts


class RoleName(StrEnum):
    """A role and the queue of its controllers."""

    ARCHITECT = "architect"
    DEVELOPER = "developer"
    WRITER = "technical-writer"
    REVIEWER = "quality-reviewer"


WORKERS = (RoleName.DEVELOPER, RoleName.WRITER)  # who may change files


def delegate(milestone: MilestoneFacts) -> str | None:
    """Name whom a milestone was delegated to, as a role where it is one; `@agent-` may stand before it."""
    return milestone.delegated_to.strip().removeprefix("@agent-") if milestone.delegated_to else None


def is_external(milestone: MilestoneFacts) -> bool:
    """Whether somebody outside of this plan does the milestone, so that it has no steps here."""
    name = delegate(milestone)
    return name is not None and name not in WORKERS


def worker_of(milestone: MilestoneFacts) -> RoleName:
    """Choose who carries out a milestone: its delegate, else by what it changes."""
    if (name := delegate(milestone)) in WORKERS:
        return RoleName(str(name))
    return RoleName.WRITER if milestone.is_documentation_only else RoleName.DEVELOPER
