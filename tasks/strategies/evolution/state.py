"""What an evolution plan keeps between its steps, and the document it shows (both JSON)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from schemas.base import Record
from schemas.evolution import PlanningAgentRequest, ValidationMode
from schemas.evolution_plan import PLANNING_OUTPUT_SCHEMA, PlanningAgentResponse, PlanningPlan
from tasks.rules.strategy import Growth
from tasks.strategies.drafting.project import Project, project_of
from tasks.strategies.evolution.request import MAX_BULLET
from tasks.text.fields import fit
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.catalogue_snapshot import catalogue_of

QUEUE = "queue"  # the drafter that is a step of the plan


class Stage(StrEnum):
    """How far a plan has come."""

    DRAFTING = "drafting"
    FINDING = "finding"  # which files its steps are about
    WORKING = "working"


class State(Record):
    """The state; `prompt` is dropped once it has been answered."""

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


def state_of(growth: Growth) -> State:
    """Read the state of a plan."""
    return State.model_validate(growth.state)


def document_of(growth: Growth) -> PlanningAgentResponse:
    """Read the document of a plan."""
    return PlanningAgentResponse.model_validate(growth.document)


def drafted_plan(growth: Growth) -> PlanningPlan:
    """Read the plan that was drafted; there is one from the end of the drafting on."""
    plan = document_of(growth).plan
    if plan is None:
        raise LookupError("This plan has not been drafted yet.")
    return plan


def mode_of(growth: Growth) -> ValidationMode:
    """Tell how this plan's draft is read."""
    return document_of(growth).validation_mode


def schema_of(growth: Growth) -> Mapping[str, Any] | None:
    """Give the schema that the drafter is shown; free text has none."""
    return None if mode_of(growth) is ValidationMode.NONE else PLANNING_OUTPUT_SCHEMA


def given_up(attempts: int) -> str:
    """Say that there is no plan, as seed 004's PlanningError does."""
    return f"could not produce a valid plan after {attempts} attempt(s)"


def project_in(growth: Growth) -> Project:
    """Read the project of a plan as its draft did: the listing that told its language is not kept."""
    state, goal = state_of(growth), growth.goal
    context = goal.context.model_copy(update={"language": state.language})
    constraints = {fit(each, MAX_BULLET): each for each in (*state.request.constraints, *goal.constraints)}
    told = goal.model_copy(update={"context": context, "constraints": tuple(constraints.values())})
    found = project_of(told, catalogue_of(growth.tools, growth.policy_version))
    return found if isinstance(found, Project) else Project(goal, goal.allowed_files, None, (), CATALOGUE)
