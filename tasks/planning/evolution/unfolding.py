"""How an evolution plan goes on: from the draft to its steps, by way of looking for files, and when all fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from schemas.base import Mode, StepState
from schemas.envelope import FieldError
from schemas.evolution import PLANNING_OUTPUT_SCHEMA, PlanningPlan, ValidationMode
from schemas.step import PlannedStep
from tasks.planning.catalogue import Catalogue
from tasks.planning.draft import MAX_UNFOLDED, End, Growth, Phase, Unfolding
from tasks.planning.drafted.reading import as_text, several_lines
from tasks.planning.evolution.plan import Parsed, parse
from tasks.planning.evolution.state import (
    Stage,
    State,
    document_of,
    drafted_plan,
    mode_of,
    project_in,
    state_of,
    unverified,
)
from tasks.planning.evolution.steps import (
    DRAFT_ID,
    FIND_ID,
    RESERVED,
    fallback_steps,
    find_step,
    places,
    plan_steps,
)
from tasks.policy.validation import max_steps

MAX_RAW = 8000  # characters of the answer that are kept
MAX_LISTED = 500  # files that a step which looks for some is shown
RULE = "planning_failed"
NOTHING_TO_CHANGE = "No step of the plan changes a file that may be changed."
NOTHING_FOUND = "None of these files is among the allowed ones."


def input_for(growth: Growth, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give the prompt to the step that drafts, and the allowlist to the one that looks for files."""
    state = state_of(growth)
    if facts["step_id"] == DRAFT_ID and state.prompt:
        mode = mode_of(growth)
        schema = None if mode is ValidationMode.NONE else PLANNING_OUTPUT_SCHEMA
        return {"prompt": state.prompt, "schema": schema, "validation_mode": mode.value}
    if facts["step_id"] == FIND_ID:
        steps = [drafted_plan(growth).steps[at].as_dict() for at in state.unplaced]
        return {"steps": steps, "allowed_files": list(growth.goal.allowed_files[:MAX_LISTED])}
    return None


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say what a drafter has to mend; in the modes that are not strict only what leaves nothing to be done."""
    if facts["step_id"] == DRAFT_ID:
        return _told(_faults(growth, _parsed(growth, output))) or None
    if facts["step_id"] == FIND_ID:
        return None if _found(growth, output) else NOTHING_FOUND
    return None


def advance(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Unfold the plan from its draft, and remember whether any of its steps has changed something."""
    return _AFTER[state_of(growth).stage](growth, end, catalogue)


def answer(_: Growth, __: Any, ___: Catalogue) -> Unfolding | str:
    """Answer that no question was asked: this kind has none."""
    return "An evolution plan asks no questions."


def stuck(growth: Growth, catalogue: Catalogue) -> Unfolding | None:
    """Carry the fallback plan out, once, where no step of the plan came to change anything."""
    state = state_of(growth)
    if state.stage is not Stage.WORKING or state.patched or state.fell_back:
        return None
    plan = drafted_plan(growth)
    if not plan.fallback_plan:
        return None
    taken = RESERVED | set(state.ids)
    made = fallback_steps(project_in(growth, catalogue), plan, state.files, taken)
    if not made.steps:
        return None
    kept = state.model_copy(update={"fell_back": True, "ids": (*state.ids, *_ids(made.steps))})
    return Unfolding(
        kept.model_dump(mode="json"),
        growth.document,
        "All steps of the plan failed: its fallback plan is carried out.",
        made.steps,
        phases=(Phase("fallback", "The fallback plan is carried out."),),
        replaces=True,
    )


def _after_drafting(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    if end.step_id != DRAFT_ID:
        return None
    if end.state != StepState.DONE:
        return _halted(growth, end)
    found = _parsed(growth, end.output)
    if found.plan is None:
        return _halted(growth, end)
    state = state_of(growth)
    made = plan_steps(project_in(growth, catalogue), found.plan, state.request.acceptance_criteria)
    document = document_of(growth).model_copy(
        update={
            "plan": found.plan,
            "raw_output": several_lines(as_text(end.output), MAX_RAW),
            "notes": (*found.notes, *(f"{where}: {why}" for where, why in (*made.faults, *made.notes))),
        }
    )
    kept = state.model_copy(update={"prompt": None, "unplaced": made.unplaced})
    told = document.model_dump(mode="json")
    if made.unplaced:
        finding = kept.model_copy(update={"stage": Stage.FINDING})
        steps = (find_step(growth.goal, found.plan, made.unplaced),)
        why = "The plan is drafted, and some of its steps do not say which files they change."
        return Unfolding(finding.model_dump(mode="json"), told, why, steps, phases=(_drafted(found.plan),))
    return _working(kept, told, made.steps, (_drafted(found.plan),))


def _after_finding(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    if end.step_id != FIND_ID:
        return None
    found = _found(growth, end.output) if end.state == StepState.DONE else None
    if not found:
        return _halted(growth, end)
    state = state_of(growth)
    criteria = state.request.acceptance_criteria
    made = plan_steps(project_in(growth, catalogue), drafted_plan(growth), criteria, found)
    document = document_of(growth)
    notes = (*document.notes, *(f"{where}: {why}" for where, why in made.notes))
    told = document.model_copy(update={"notes": tuple(dict.fromkeys(notes))}).model_dump(mode="json")
    return _working(state, told, made.steps, (Phase("placed", "The files to change are found."),))


def _after_working(growth: Growth, end: End, _: Catalogue) -> Unfolding | None:
    state = state_of(growth)
    if state.patched or end.state != StepState.DONE or end.facts["mode"] != Mode.PATCH:
        return None
    kept = state.model_copy(update={"patched": True}).model_dump(mode="json")
    return Unfolding(kept, growth.document, "A step of the plan has changed something.")


_AFTER: Mapping[Stage, Callable[[Growth, End, Catalogue], Unfolding | None]] = MappingProxyType(
    {Stage.DRAFTING: _after_drafting, Stage.FINDING: _after_finding, Stage.WORKING: _after_working}
)


def _working(
    state: State, document: Mapping[str, Any], steps: tuple[PlannedStep, ...], phases: tuple[Phase, ...]
) -> Unfolding:
    files = tuple(dict.fromkeys(path for step in steps for path in step.allowed_files))
    update = {"stage": Stage.WORKING, "unplaced": (), "ids": _ids(steps), "files": files}
    kept = state.model_copy(update=update).model_dump(mode="json")
    return Unfolding(kept, document, "The drafted plan becomes steps.", steps, phases=phases)


def _halted(growth: Growth, end: End) -> Unfolding:
    """Give up, as seed 004's PlanningError does, with what the last attempt ran into."""
    attempts = state_of(growth).attempts
    reason = f"could not produce a valid plan after {attempts} attempt(s)"
    if end.state == StepState.SKIPPED:
        reason = f"{end.step_id} was skipped, and there is no plan without it"
    evidence = {"step_id": end.step_id, "attempts": attempts, "last_error": end.failure}
    return Unfolding(growth.state, growth.document, reason, halt=(RULE, reason, evidence))


def _parsed(growth: Growth, output: Any) -> Parsed:
    return parse(output, mode_of(growth), state_of(growth).request)


def _found(growth: Growth, output: Any) -> dict[int, tuple[str, ...]] | None:
    """Read which files were found; None where there are none at all."""
    found = places(output, drafted_plan(growth), state_of(growth).unplaced, unverified(growth.goal))
    return found if any(found.values()) else None


def _faults(growth: Growth, found: Parsed) -> Sequence[FieldError]:
    if found.plan is None:
        return found.errors
    made = plan_steps(unverified(growth.goal), found.plan)  # of what is verified nothing is the drafter's fault
    if mode_of(growth) is ValidationMode.STRICT and made.faults:
        return [FieldError(pointer=where, code="invalid_plan", message=why) for where, why in made.faults]
    if made.steps and all(step.mode is not Mode.PATCH for step in made.steps):
        return (FieldError(pointer="/steps", code="nothing_to_change", message=NOTHING_TO_CHANGE),)
    most = min(MAX_UNFOLDED, max_steps(growth.goal) - 1)
    if len(made.steps) > most:
        message = f"The plan's files make {len(made.steps)} steps, and there is room for {most}."
        return (FieldError(pointer="/steps", code="too_many_steps", message=message),)
    return ()


def _told(errors: Sequence[FieldError]) -> str:
    return "; ".join(f"{error.pointer}: {error.message}" for error in errors)


def _drafted(plan: PlanningPlan) -> Phase:
    return Phase("drafted", f"The plan is drafted: {len(plan.steps)} step(s).")


def _ids(steps: Sequence[PlannedStep]) -> tuple[str, ...]:
    return tuple(step.step_id for step in steps)
