"""The strategy state of an evolution plan."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from schemas.base import Record
from schemas.kinds.evolution import PlanningAgentRequest
from tasks.rules.strategy import LivePlan
from tasks.strategies.drafting.project import Project, project_of
from tasks.strategies.evolution.request import MAX_BULLET
from tasks.text.fields import fit
from tasks.toolchain.catalogue import CATALOGUE, catalogue_of


class Stage(StrEnum):
    """The stage of a plan."""

    DRAFTING = "drafting"
    FINDING = "finding"  # the files of its steps
    WORKING = "working"


class Progress(Record):
    """The progress of the steps, and the results that the card of the commit reports."""

    parts: dict[str, int] = Field(default_factory=dict)  # steps -> positions of those of the drafted plan
    fallback: tuple[str, ...] = ()  # steps that carry the fallback plan out
    left: tuple[str, ...] = ()  # steps that have yet to be done
    commit: str | None = None  # the last one that a controller reported
    files: tuple[str, ...] = ()  # that were changed
    titles: tuple[str, ...] = ()  # of the parts that are done
    evaluation: dict[str, float] = Field(default_factory=dict)


class EvolutionState(Record):
    """The strategy state of an evolution plan; `prompt` is dropped after its answer."""

    stage: Stage = Stage.DRAFTING
    attempts: int  # that the drafter has at the most
    began: int = 0  # ms, when it was asked first
    request: PlanningAgentRequest  # what of it reading the answer and making steps need
    language: str | None = None
    prompt: str | None = None
    unplaced: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()  # of the plan's own steps
    files: tuple[str, ...] = ()  # they are about
    patched: bool = False  # one of them has changed something
    fell_back: bool = False
    progress: Progress = Progress()


def state_of(live: LivePlan) -> EvolutionState:
    """Return the state of a plan."""
    return EvolutionState.model_validate(live.state)


def project_in(live: LivePlan) -> Project:
    """Return the same project that the draft of a plan read.

    The state stores the language, since the listing that determined it is not stored.
    """
    state, goal = state_of(live), live.goal
    context = goal.context.model_copy(update={"language": state.language})
    constraints = {fit(each, MAX_BULLET): each for each in (*state.request.constraints, *goal.constraints)}
    whole = goal.model_copy(update={"context": context, "constraints": tuple(constraints.values())})
    found = project_of(whole, catalogue_of(live.tools))
    return found if isinstance(found, Project) else Project(goal, goal.allowed_files, None, (), CATALOGUE)
