"""How a task goes on from the step that drafts its plan: to the drafted steps, or to those of its template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import StepState
from schemas.task_draft import TASK_DRAFT_SCHEMA
from tasks.rules.strategy import End, Growth, Unfolding
from tasks.strategies.task.asking import QUEUE, instead, phase_of, told_of, why_of
from tasks.strategies.task.state import State, project_in, state_of
from tasks.strategies.task.steps import DRAFT_ID, Made, made_of
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.catalogue_snapshot import catalogue_of

WORKING: Mapping[str, Any] = State().model_dump(mode="json")


def input_for(growth: Growth, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give the prompt and the schema to the step that drafts."""
    if facts["step_id"] != DRAFT_ID:
        return None
    return {"prompt": state_of(growth).prompt, "schema": TASK_DRAFT_SCHEMA}


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say what a drafter has to mend."""
    if facts["step_id"] != DRAFT_ID:
        return None
    errors = _made(growth, output, catalogue_of(growth.tools, growth.policy_version)).errors
    return "; ".join(f"{error.pointer}: {error.message}" for error in errors) or None


def advance(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Unfold the plan from its draft, or from its template where there is no draft that is of use."""
    if end.step_id != DRAFT_ID:
        return None
    if end.state != StepState.DONE:
        return _instead(growth, _why(end))
    made = _made(growth, end.output, catalogue)
    if not made.steps:
        return _instead(growth, why_of(made.errors))
    document = told_of(made, {"drafter": QUEUE})
    return Unfolding(WORKING, document, "The drafted plan becomes steps.", made.steps, phases=(phase_of(made),))


def answer(_: Growth, __: Any, ___: Catalogue) -> Unfolding | str:
    """Answer that no question was asked: this kind has none."""
    return "A task asks no questions."


def stuck(_: Growth, __: Catalogue) -> Unfolding | None:
    """Leave a plan that nothing can go on with to the halt rules."""
    return None


def _made(growth: Growth, output: Any, catalogue: Catalogue) -> Made:
    state = state_of(growth)
    return made_of(project_in(growth, state, catalogue), output, strict=state.strict, changes=state.changes)


def _why(end: End) -> str:
    if end.state == StepState.SKIPPED:
        return f"{end.step_id} was skipped."
    return str((end.failure or {}).get("suggestion") or f"{end.step_id} failed.")


def _instead(growth: Growth, why: str) -> Unfolding:
    state = state_of(growth)
    if not state.template:
        reason = f"The draft is of no use: {why}"
        return Unfolding(
            WORKING, growth.document, reason, halt=("planning_failed", reason, {"step_id": DRAFT_ID, "last_error": why})
        )
    document = {**(state.document or {}), "drafting": {"failed": why}}
    phase = instead(why)
    return Unfolding(WORKING, document, phase.status, state.template, phases=(phase,), replaces=True)
