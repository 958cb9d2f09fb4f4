"""How an evolution plan goes on: from the draft to its steps, by way of looking for files, and when all fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from schemas.base import Mode, StepState
from tasks.rules.strategy import End, Growth, Phase, Unfolding
from tasks.strategies.evolution.judging import found_in, judged, told
from tasks.strategies.evolution.making import Taken, ids, placed, planned
from tasks.strategies.evolution.state import Stage, drafted_plan, given_up, mode_of, project_in, schema_of, state_of
from tasks.strategies.evolution.steps import DRAFT_ID, FIND_ID, RESERVED, fallback_steps
from tasks.toolchain.catalogue import Catalogue

MAX_LISTED = 500  # files that a step which looks for some is shown


def input_for(growth: Growth, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give the prompt to the step that drafts, and the allowlist to the one that looks for files."""
    state = state_of(growth)
    if facts["step_id"] == DRAFT_ID and state.prompt:
        return {"prompt": state.prompt, "schema": schema_of(growth), "validation_mode": mode_of(growth).value}
    if facts["step_id"] == FIND_ID:
        steps = [drafted_plan(growth).steps[at].as_dict() for at in state.unplaced]
        return {"steps": steps, "allowed_files": list(growth.goal.allowed_files[:MAX_LISTED])}
    return None


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say what a drafter has to mend; in the modes that are not strict only what leaves nothing to be done."""
    if facts["step_id"] == DRAFT_ID:
        found = judged(growth, output)
        return None if found.plan else told(found.errors)
    if facts["step_id"] == FIND_ID:
        sought = found_in(growth, output)
        return sought if isinstance(sought, str) else None
    return None


def advance(growth: Growth, end: End, _: Catalogue) -> Unfolding | None:
    """Unfold the plan from its draft, and remember whether any of its steps has changed something."""
    return _AFTER[state_of(growth).stage](growth, end)


def answer(_: Growth, __: Any, ___: Catalogue) -> Unfolding | str:
    """Answer that no question was asked: this kind has none."""
    return "An evolution plan asks no questions."


def stuck(growth: Growth, _: Catalogue) -> Unfolding | None:
    """Carry the fallback plan out, once, where no step of the plan came to change anything."""
    state = state_of(growth)
    if state.stage is not Stage.WORKING or state.patched or state.fell_back:
        return None
    plan = drafted_plan(growth)
    if not plan.fallback_plan:
        return None
    taken = RESERVED | set(state.ids)
    made = fallback_steps(project_in(growth), plan, state.files, taken)
    if not made.steps:
        return None
    kept = state.model_copy(update={"fell_back": True, "ids": (*state.ids, *ids(made.steps))})
    return Unfolding(
        kept.model_dump(mode="json"),
        growth.document,
        "All steps of the plan failed: its fallback plan is carried out.",
        made.steps,
        phases=(Phase("fallback", "The fallback plan is carried out."),),
        replaces=True,
    )


def _after_drafting(growth: Growth, end: End) -> Unfolding | None:
    if end.step_id != DRAFT_ID:
        return None
    found = judged(growth, end.output) if end.state == StepState.DONE else None
    if found is None or found.plan is None:
        return _halted(growth, end)
    attempts = end.attempt or 1
    seconds = (growth.now - state_of(growth).began) / 1000
    return planned(growth, Taken(found.plan, end.output, attempts, seconds, found.notes))


def _after_finding(growth: Growth, end: End) -> Unfolding | None:
    if end.step_id != FIND_ID:
        return None
    found = found_in(growth, end.output) if end.state == StepState.DONE else ""
    return _halted(growth, end) if isinstance(found, str) else placed(growth, found)


def _after_working(growth: Growth, end: End) -> Unfolding | None:
    state = state_of(growth)
    if state.patched or end.state != StepState.DONE or end.facts["mode"] != Mode.PATCH:
        return None
    kept = state.model_copy(update={"patched": True}).model_dump(mode="json")
    return Unfolding(kept, growth.document, "A step of the plan has changed something.")


_AFTER: Mapping[Stage, Callable[[Growth, End], Unfolding | None]] = MappingProxyType(
    {Stage.DRAFTING: _after_drafting, Stage.FINDING: _after_finding, Stage.WORKING: _after_working}
)


def _halted(growth: Growth, end: End) -> Unfolding:
    """Give up, as seed 004's PlanningError does, with what the last attempt ran into."""
    most = state_of(growth).attempts if end.step_id == DRAFT_ID else 1 + int(end.facts.get("retry_limit") or 0)
    attempts = end.attempt or most
    reason = given_up(attempts)
    if end.state == StepState.SKIPPED:
        reason = f"{end.step_id} was skipped, and there is no plan without it"
    counted = {"value": attempts, "limit": most, "limit_name": "max_attempts"}
    evidence = {"step_id": end.step_id, "attempts": attempts, "last_error": end.failure, **counted}
    return Unfolding(growth.state, growth.document, reason, halt=("planning_failed", reason, evidence))
