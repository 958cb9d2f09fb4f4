"""The strategy state of a task while a controller drafts its plan; afterwards it is empty."""

from __future__ import annotations

from typing import Any

from schemas.base import Record
from schemas.step import PlannedStep
from tasks.rules.strategy import LivePlan
from tasks.strategies.drafting.project import Project, project_of
from tasks.toolchain.catalogue import Catalogue


class TaskState(Record):
    """The data for a controller's draft, empty later: its prompt, and the template's steps as the fallback."""

    prompt: str | None = None
    strict: bool = False
    changes: bool = True  # the goal asks for a change, not only for a look
    language: str | None = None  # the listing that it was read from is not kept
    template: tuple[PlannedStep, ...] = ()  # the fallback for an unusable draft; empty: then the plan halts
    document: dict[str, Any] | None = None  # of the template


def project_in(live: LivePlan, state: TaskState, catalogue: Catalogue) -> Project:
    """Return the same project that the draft of a plan read. Raises LookupError if the goal is not valid any more."""
    context = live.goal.context.model_copy(update={"language": state.language})
    found = project_of(live.goal.model_copy(update={"context": context}), catalogue)
    if not isinstance(found, Project):
        raise LookupError(f"This goal was planned, and cannot be any more: {found[0].message}")
    return found
