"""How a campaign goes on: with an exploration, with a person's answer, and with the ends of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schemas.base import StepState
from schemas.campaign import Decision
from tasks.rules.strategy import End, Growth, Unfolding
from tasks.strategies.campaign.answers import Asked, learned
from tasks.strategies.campaign.asking import DRAFT
from tasks.strategies.campaign.document import reported
from tasks.strategies.campaign.exploring import EXPLORE, exploration_of, read
from tasks.strategies.campaign.outline import Outline, asked, led, outline
from tasks.strategies.campaign.page import page
from tasks.strategies.campaign.progress import blocked_reason, ended, task_of
from tasks.strategies.campaign.scope import scope_of
from tasks.strategies.campaign.state import State
from tasks.strategies.campaign.taking import draft_ended, redraft_ended, refused, unfolded
from tasks.toolchain.catalogue import Catalogue


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say why an output is no use: that of a step which explores or drafts; of a task, if it is blocked."""
    state, step_id = State.model_validate(growth.state), facts.get("step_id")
    if step_id == state.waits == EXPLORE:
        found = exploration_of(output)
        return found if isinstance(found, str) else None
    if step_id == state.waits:
        wrong = refused(growth, state, output)
        return wrong.told if wrong else None
    reason = blocked_reason(output)
    return f"The task is blocked: {reason}" if reason else None


def advance(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Plan from an exploration or a draft; otherwise note how far a task is."""
    state = State.model_validate(growth.state)
    if end.step_id == state.waits:
        return _AFTER.get(end.step_id, redraft_ended)(growth, state, end, catalogue)
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
    if state.waits not in _QUESTIONS:
        return "The campaign asks nothing."
    scope = scope_of(growth, state, catalogue)
    finding = asked(state.known, scope)
    shown = page(finding, state.known, scope.objective, scope.allowed)
    known = learned(value, Asked(finding, state.known, shown, scope.allowed, catalogue))
    if isinstance(known, str):
        return known
    made = outline(known, scope, state.rounds + 1, state.made)
    if made.question and made.state.rounds >= state.terms.clarifications:
        return _given_up(made)
    return unfolded(made, f"Answer {made.state.rounds} was taken in.")


def _explored(growth: Growth, state: State, end: End, catalogue: Catalogue) -> Unfolding:
    scope = scope_of(growth, state, catalogue)
    found = exploration_of(end.output) if end.state == StepState.DONE else "It did not succeed."
    known, phase = read(state.known, None if isinstance(found, str) else found, scope)
    return unfolded(led(outline(known, scope, before=state.made), phase), "The exploration has ended.")


_AFTER: Mapping[str, Callable[[Growth, State, End, Catalogue], Unfolding | None]] = {
    EXPLORE: _explored,
    DRAFT: draft_ended,
}
_QUESTIONS = {each.value.lower() for each in (Decision.CLARIFY, Decision.CONFIRM)}  # what a campaign waits with


def _given_up(made: Outline) -> Unfolding:
    questions = list(made.question.questions) if made.question else []
    met = {"value": made.state.rounds, "limit": made.state.terms.clarifications, "limit_name": "clarifications"}
    evidence = {**met, "questions": questions}
    reason = f"{made.state.rounds} answers did not settle what is to be done."
    state = made.state.model_dump(mode="json")
    return Unfolding(state, made.document, reason, phases=made.phases, halt=("clarification_limit", reason, evidence))
