"""What becomes of a campaign when a step that drafts its tasks has answered, or has given up (the drafter `queue`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schemas.base import StepState
from tasks.rules.strategy import End, Growth, Unfolding
from tasks.strategies.campaign.asking import DRAFT, NONE, QUEUE
from tasks.strategies.campaign.outline import Outline, led, templated
from tasks.strategies.campaign.progress import tasks_of
from tasks.strategies.campaign.proposing import MAX_TOLD, Refused, changed, fallen_back, judged, proposed, taken
from tasks.strategies.campaign.replanning import anew, by_templates
from tasks.strategies.campaign.scope import Scope, scope_of
from tasks.strategies.campaign.state import State
from tasks.text.fields import fit
from tasks.toolchain.catalogue import Catalogue

SKIPPED = "an operator skipped the draft"


def refused(growth: Growth, state: State, output: Any) -> Refused | None:
    """Say what is wrong with drafted tasks; None where nothing is."""
    scope = scope_of(growth, state)
    found = proposed(output, state, scope, QUEUE) if state.waits == DRAFT else _anew(growth, state, output, scope)
    return found if isinstance(found, Refused) else None


def draft_ended(growth: Growth, state: State, end: End, catalogue: Catalogue) -> Unfolding:
    """Plan with the drafted tasks; without any by the templates, or not at all where the operator wants it so."""
    scope = scope_of(growth, state, catalogue)
    if end.state == StepState.DONE:
        found = proposed(end.output, state, scope, QUEUE)
        if isinstance(found, Outline):
            return unfolded(led(found, taken(found, QUEUE)), "The tasks are drafted.")
    why = _why(end)
    if state.terms.reject and end.state == StepState.FAILED:
        evidence = {"step_id": end.step_id, "attempts": state.terms.attempts, "last_error": why}
        reason = f"The drafts of the tasks are of no use: {why}"
        return Unfolding(growth.state, growth.document, reason, halt=("planning_failed", reason, evidence))
    alone = replace(scope, terms=state.terms.model_copy(update={"drafter": NONE}))
    made = templated(state.known, alone, state.rounds, state.made)
    return unfolded(led(made, fallen_back(why)), "The tasks are those of the templates.")


def redraft_ended(growth: Growth, state: State, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Plan anew with the drafted tasks, else by the templates."""
    scope = scope_of(growth, state, catalogue)
    found = _anew(growth, state, end.output, scope) if end.state == StepState.DONE else None
    if isinstance(found, Unfolding):
        return found
    made = by_templates(growth, state, scope)
    return replace(made, phases=(fallen_back(_why(end)), *made.phases)) if made else None


def _anew(growth: Growth, state: State, output: Any, scope: Scope) -> Unfolding | Refused:
    tasks = changed(output, state, tasks_of(growth.document), scope)
    if isinstance(tasks, Refused):
        return tasks
    made = anew(growth, state, tasks, scope)
    return judged(made.steps, state.made, scope) or made


def unfolded(made: Outline, why: str) -> Unfolding:
    """Go on as outlined."""
    trouble = made.trouble
    errors = [trouble.model_dump()] if trouble else []
    return Unfolding(
        made.state.model_dump(mode="json"),
        made.document,
        why,
        () if trouble else made.steps,
        made.phases,
        None if trouble else made.question,
        replaces=True,  # what explored or drafted may have failed or been skipped: planning goes on without it
        halt=("planning_failed", trouble.message, {"errors": errors}) if trouble else None,
    )


def _why(end: End) -> str:
    if end.state == StepState.SKIPPED:
        return SKIPPED
    failure = end.failure or {}
    said = (failure.get("suggestion"), failure.get("trace"), failure.get("category"))
    return next((fit(each, MAX_TOLD) for each in said if isinstance(each, str) and each.strip()), "it failed")
