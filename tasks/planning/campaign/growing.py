"""How a campaign goes on: with an exploration, with a person's answer, and with the ends of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import StepState
from tasks.planning.campaign.answers import Asked, learned
from tasks.planning.campaign.document import reported
from tasks.planning.campaign.drafting import read
from tasks.planning.campaign.exploring import EXPLORE, exploration_of
from tasks.planning.campaign.outline import Outline, Scope, asked, outline
from tasks.planning.campaign.page import page
from tasks.planning.campaign.progress import blocked_reason, ended, task_of
from tasks.planning.campaign.state import State
from tasks.planning.catalogue import Catalogue
from tasks.planning.draft import End, Growth, Phase, Unfolding

MAX_ROUNDS = 5  # answers without PROCEED


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say why an output is no use: of the step that explores, if it is no exploration; of a task, if it is blocked."""
    if State.model_validate(growth.state).waits == EXPLORE and facts.get("step_id") == EXPLORE:
        found = exploration_of(output)
        return found if isinstance(found, str) else None
    reason = blocked_reason(output)
    return f"The task is blocked: {reason}" if reason else None


def advance(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Plan from an exploration; otherwise note how far a task is."""
    state = State.model_validate(growth.state)
    if state.waits == EXPLORE and end.step_id == EXPLORE:
        return _explored(growth, state, end, catalogue)
    seq = task_of(state, end.step_id)
    if seq is None:
        return None
    state = ended(state, seq, end, growth.document or {})
    document = {**(growth.document or {}), "progress": reported(state.progress)}
    status = state.progress[seq].status
    return Unfolding(state.model_dump(mode="json"), document, f"Task {seq} is {status.replace('_', ' ')}.")


def answer(growth: Growth, value: Any, catalogue: Catalogue) -> Unfolding | str:
    """Go on from what a person said, ask again, or say why that was no answer."""
    state = State.model_validate(growth.state)
    if state.waits is None or state.waits == EXPLORE:
        return "The campaign asks nothing."
    scope = scope_of(growth, catalogue)
    finding = asked(state.known, scope)
    shown = page(finding, state.known, scope.objective, scope.allowed)
    known = learned(value, Asked(finding, state.known, shown, scope.allowed, catalogue))
    if isinstance(known, str):
        return known
    made = outline(known, scope, state.rounds + 1)
    if made.question and made.state.rounds >= MAX_ROUNDS:
        return _given_up(made)
    return _unfolded(made, f"Answer {made.state.rounds} was taken in.")


def scope_of(growth: Growth, catalogue: Catalogue) -> Scope:
    """See what a campaign that runs is planned within."""
    objective = (growth.document or {}).get("objective")
    goal = growth.goal
    return Scope(goal, objective if isinstance(objective, str) else goal.goal, goal.allowed_files, catalogue)


def _explored(growth: Growth, state: State, end: End, catalogue: Catalogue) -> Unfolding:
    scope = scope_of(growth, catalogue)
    found = exploration_of(end.output) if end.state == StepState.DONE else "It did not succeed."
    known, phase = read(state.known, None if isinstance(found, str) else found, scope)
    return _unfolded(outline(known, scope), "The exploration has ended.", phase)


def _unfolded(made: Outline, why: str, *phases: Phase) -> Unfolding:
    trouble = made.trouble
    return Unfolding(
        made.state.model_dump(mode="json"),
        made.document,
        why,
        () if trouble else made.steps,
        (*phases, *made.phases),
        None if trouble else made.question,
        replaces=True,  # an exploration that failed or was skipped: planning goes on without it
        halt=(trouble.code, trouble.message, {"files": list(made.state.known.outside)}) if trouble else None,
    )


def _given_up(made: Outline) -> Unfolding:
    questions = list(made.question.questions) if made.question else []
    evidence = {"rounds": made.state.rounds, "limit": MAX_ROUNDS, "questions": questions}
    reason = f"{made.state.rounds} answers did not settle what is to be done."
    state = made.state.model_dump(mode="json")
    return Unfolding(state, made.document, reason, phases=made.phases, halt=("clarification_limit", reason, evidence))
