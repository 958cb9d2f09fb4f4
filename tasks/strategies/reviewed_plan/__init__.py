"""The strategy of the kind `reviewed_plan`: planning and execution through quality gates (seed 002).

Whatever a role answers is judged before it counts (`refusal`), and applied as a whole when its step ends (`advance`).
A review that finds faults is no failure: it sends the work back as new steps, until a person has to decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schemas.base import StepState
from schemas.goal import Goal
from schemas.review import ReviewDocument, ReviewState, StepEnd
from schemas.review_qr import GateVerdict
from tasks.rules.strategy import End, Growth, Unfolding
from tasks.strategies.reviewed_plan.asking import continued, decision_of, overruled
from tasks.strategies.reviewed_plan.drafting import draft
from tasks.strategies.reviewed_plan.executing import reported, tallied
from tasks.strategies.reviewed_plan.handlers import Row
from tasks.strategies.reviewed_plan.material import input_for
from tasks.strategies.reviewed_plan.operations import Refused
from tasks.strategies.reviewed_plan.turn import Turn
from tasks.strategies.reviewed_plan.workflow import ROWS, go
from tasks.text.fields import fit
from tasks.toolchain.catalogue import CATALOGUE, Catalogue

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]

FAILED, SKIPPED, DONE = StepState.FAILED.value, StepState.SKIPPED.value, StepState.DONE.value
MAX_UNTOUCHED = 5  # files told of one step


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say why an answer is no use, by trying what would come of it."""
    state = ReviewState.model_validate(growth.state)
    row = ROWS.get(state.row)
    if row is None or facts.get("step_id") not in state.open:
        return None
    if not row.reads_answer:
        writes = isinstance(output, dict) and "operations" in output
        return "frozen: plan.json is not written while it is carried out" if writes else None
    try:
        _left(row, _turn(growth, CATALOGUE, state), output)
    except Refused as refused:
        return str(refused)
    return None


def advance(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Note how a step ended; with the last of its row the workflow goes on."""
    state = ReviewState.model_validate(growth.state)
    row = ROWS.get(state.row)
    if row is None or end.step_id not in state.open:
        return None
    state = _noted(state, end)
    if state.failed:
        return _blocked(_turn(growth, catalogue, state), end)
    why = f"{end.step_id} is {end.state}"
    if state.open:
        return Unfolding(state.model_dump(mode="json"), growth.document, why)
    turn = replace(_turn(growth, catalogue, state), unreviewed=row.reads_answer and end.state == SKIPPED)
    try:
        left, following = _left(row, turn, end.output)
    except Refused:  # it was judged before, so this is an answer that nobody can use: what follows decides without it
        left, following = _left(row, replace(turn, unreviewed=True), None)
    return go(left, following).unfolding(why)


def answer(growth: Growth, value: Any, catalogue: Catalogue) -> Unfolding | str:
    """Do as a person decided about a gate that does not pass."""
    state = ReviewState.model_validate(growth.state)
    if state.asked is None:
        return "Nothing is asked."
    turn, phase, row = _turn(growth, catalogue, state), state.asked, ROWS[state.row]
    said = decision_of(value, turn, phase)
    if isinstance(said, str):
        return said
    why = f"A person decided about {row.brief.name}: {said.decision}"
    if said.decision == "stop":
        return _stopped(turn, fit(said.reason, 500)).unfolding(why)
    if said.decision == "continue":
        skipped = turn.document.gate_history[-1].verdict is GateVerdict.SKIPPED
        back = f"{phase}-qr" if skipped else row.brief.back
        return go(continued(turn, phase), back).unfolding(why)
    return go(*_left(row, overruled(turn, phase, said.reason), None)).unfolding(why)


def stuck(growth: Growth, catalogue: Catalogue) -> Unfolding | None:  # noqa: ARG001 (the protocol's signature)
    """A step that failed for good ends the plan; the report has said so since it failed."""
    return None


def _turn(growth: Growth, catalogue: Catalogue, state: ReviewState) -> Turn:
    goal: Goal = growth.goal
    document = ReviewDocument.model_validate(growth.document)
    return Turn(goal, goal.allowed_files, catalogue, growth.now, state, document)


def _left(row: Row, turn: Turn, output: Any) -> tuple[Turn, str | None]:
    return row.leave(turn, output) if row.leave else (turn, None)


def _noted(state: ReviewState, end: End) -> ReviewState:
    files = end.facts.get("allowed_files", ()) if end.state == DONE else ()
    untouched = tuple(path for path in files if path not in end.touched_files)[:MAX_UNTOUCHED]
    note = StepEnd(step_id=end.step_id, state=end.state, untouched=untouched)
    left = tuple(name for name in state.open if name != end.step_id)
    failed = state.failed or end.state == FAILED
    return state.model_copy(update={"open": left, "ended": (*state.ended, note), "failed": failed})


def _blocked(turn: Turn, end: End) -> Unfolding:
    """Write down how far the plan came: no row follows a step that failed for good."""
    turn = tallied(turn)
    report = reported(turn.document, "BLOCKED", summary=f"{turn.state.row} did not succeed.")
    return turn.writing(report=report).unfolding(f"{end.step_id} is {end.state}")


def _stopped(turn: Turn, reason: str) -> Turn:
    """Halt by a person's word."""
    report = reported(turn.document, "ABORTED", summary=reason)
    told = f"A person stopped the plan at {turn.state.row}. {reason}".strip()
    evidence = {"gate": turn.state.row, "decision": "stop"}
    return replace(turn.writing(report=report).keeping(asked=None), halt=("review_stopped", told, evidence))
