"""Whether an answer is a plan that can be carried out; whoever gave it, it is judged here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import Mode
from schemas.envelope import FieldError, field_error
from schemas.evolution import ValidationMode
from schemas.evolution_plan import PlanningPlan
from schemas.step import PlannedStep
from tasks.rules.strategy import MAX_UNFOLDED, Growth
from tasks.rules.validation import max_steps
from tasks.strategies.evolution.plan import Parsed, parse
from tasks.strategies.evolution.state import QUEUE, document_of, drafted_plan, mode_of, project_in, state_of
from tasks.strategies.evolution.steps import places, plan_steps

NOTHING_TO_CHANGE = "No step of the plan changes a file that may be changed."
NOTHING_FOUND = "None of these files is among the allowed ones."

Found = Mapping[int, tuple[str, ...]]


def judged(growth: Growth, output: Any) -> Parsed:
    """Read an answer; without a plan the errors say what its drafter has to mend.

    In the modes that are not strict only what leaves nothing to be done is an error.
    """
    found = parse(output, mode_of(growth), state_of(growth).request)
    errors = _faults(growth, found.plan) if found.plan else ()
    return Parsed(None, tuple(errors), found.notes) if errors else found


def found_in(growth: Growth, output: Any) -> Found | str:
    """Read which files were found for the steps that name none, or say why the answer is of no use."""
    found = places(output, drafted_plan(growth), state_of(growth).unplaced, project_in(growth))
    if not any(found.values()):
        return NOTHING_FOUND
    made = plan_steps(project_in(growth), drafted_plan(growth), state_of(growth).request.acceptance_criteria, found)
    return told(_crowd(made.steps, _room(growth) - 1)) or found


def told(errors: Sequence[FieldError]) -> str:
    """Tell errors in a line."""
    return "; ".join(f"{error.pointer}: {error.message}" for error in errors)


def _faults(growth: Growth, plan: PlanningPlan) -> Sequence[FieldError]:
    made = plan_steps(project_in(growth), plan, state_of(growth).request.acceptance_criteria)
    if mode_of(growth) is ValidationMode.STRICT and made.faults:
        return [field_error(where, "invalid_plan", why) for where, why in made.faults]
    if made.steps and all(step.mode is not Mode.PATCH for step in made.steps):
        return (field_error("/steps", "nothing_to_change", NOTHING_TO_CHANGE),)
    return _crowd(made.steps, _room(growth))


def _room(growth: Growth) -> int:
    """Say how many steps the plan may still get; one that drafts counts too."""
    return max_steps(growth.goal) - (document_of(growth).drafter == QUEUE)


def _crowd(steps: Sequence[PlannedStep], room: int) -> Sequence[FieldError]:
    most = min(MAX_UNFOLDED, room)
    if len(steps) <= most:
        return ()
    message = f"The plan's files make {len(steps)} steps, and there is room for {most}."
    return (field_error("/steps", "too_many_steps", message),)
