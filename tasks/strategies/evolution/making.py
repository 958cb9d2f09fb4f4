"""From a plan that was drafted to the steps that carry it out, by way of a step that looks for files if need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.evolution_plan import PlanningAgentResponse, PlanningPlan
from schemas.step import PlannedStep
from tasks.rules.strategy import Growth, Phase, Unfolding
from tasks.strategies.drafting.steps import Governed
from tasks.strategies.evolution.state import Stage, State, document_of, drafted_plan, project_in, state_of
from tasks.strategies.evolution.steps import find_step, plan_steps
from tasks.text.fields import several_lines
from tasks.text.json_in_prose import as_text
from tasks.text.secrets import fit_redacted

MAX_RAW = 8000  # characters of the answer that are kept


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer that was taken: its plan, what it said, and what it took to get it."""

    plan: PlanningPlan
    output: Any
    attempts: int
    seconds: float
    notes: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    stderr: str = ""


def planned(growth: Growth, taken: Taken) -> Unfolding:
    """Unfold a drafted plan into its steps, or into the one that finds out which files some of them are about."""
    state = state_of(growth)
    made = plan_steps(project_in(growth), taken.plan, state.request.acceptance_criteria)
    document = _document(growth, taken, made).model_dump(mode="json")
    phase = Phase("drafted", f"The plan is drafted: {len(taken.plan.steps)} step(s), attempt {taken.attempts}.")
    kept = state.model_copy(update={"prompt": None, "unplaced": made.unplaced})
    if not made.unplaced:
        return working(kept, document, made.steps, phase)
    finding = kept.model_copy(update={"stage": Stage.FINDING}).model_dump(mode="json")
    why = "The plan is drafted, and some of its steps do not say which files they change."
    steps = (find_step(growth.goal, taken.plan, made.unplaced),)
    return Unfolding(finding, document, why, steps, phases=(phase,))


def placed(growth: Growth, found: Mapping[int, tuple[str, ...]]) -> Unfolding:
    """Unfold the plan with the files that were found for its steps."""
    state, document = state_of(growth), document_of(growth)
    criteria = state.request.acceptance_criteria
    made = plan_steps(project_in(growth), drafted_plan(growth), criteria, found)
    notes = tuple(dict.fromkeys((*document.notes, *_said(made.notes))))
    told = document.model_copy(update={"notes": notes}).model_dump(mode="json")
    return working(state, told, made.steps, Phase("placed", "The files to change are found."))


def working(state: State, document: Mapping[str, Any], steps: tuple[PlannedStep, ...], phase: Phase) -> Unfolding:
    """Add the steps of the plan; from now on the state knows which they are and what they are about."""
    files = tuple(dict.fromkeys(path for step in steps for path in step.allowed_files))
    update = {"stage": Stage.WORKING, "unplaced": (), "ids": ids(steps), "files": files}
    kept = state.model_copy(update=update).model_dump(mode="json")
    return Unfolding(kept, document, "The drafted plan becomes steps.", steps, phases=(phase,))


def ids(steps: Sequence[PlannedStep]) -> tuple[str, ...]:
    """Name the steps."""
    return tuple(step.step_id for step in steps)


def _document(growth: Growth, taken: Taken, made: Governed) -> PlanningAgentResponse:
    return document_of(growth).model_copy(
        update={
            "plan": taken.plan,
            "raw_output": fit_redacted(as_text(taken.output), MAX_RAW, cut=several_lines),
            "command": taken.command,
            "stderr": taken.stderr,
            "attempts": taken.attempts,
            "duration_seconds": round(taken.seconds, 3),
            "notes": (*taken.notes, *_said((*made.faults, *made.notes))),
        }
    )


def _said(found: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{where}: {why}" for where, why in found)
