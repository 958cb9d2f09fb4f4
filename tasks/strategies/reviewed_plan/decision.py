"""A person's decision about a gate that does not pass, or about work that failed.

The work is sent back again, or the failed items are accepted with a reason, or the plan is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from schemas.base import StepState
from schemas.kinds.reviewed_plan import PersonsDecision
from schemas.kinds.reviewed_plan_files import GateVerdict, ItemStatus, QrItem, QrPhase
from tasks.rules.strategy import Question
from tasks.strategies.reviewed_plan import gate
from tasks.strategies.reviewed_plan.state import Turn
from tasks.strategies.reviewed_plan.words import explain
from tasks.text.fields import fit

MAX_CONTINUED = 3  # how often a person may send one gate's work back, so that every workflow ends
MAX_TOLD = 20  # items


def ask(turn: Turn, phase: QrPhase, items: Sequence[QrItem]) -> Turn:
    """Return the turn with a question to a person: how to go on at a gate that `items` block."""
    lines = [f"{item.id} ({item.severity}) {item.check}: {item.finding or 'undecided'}" for item in items[:MAX_TOLD]]
    shown = tuple(fit(line, 500) for line in lines)
    goes_on = turn.loop(phase).continued < MAX_CONTINUED
    choices = f"{'continue, ' if goes_on else ''}accept (with a reason) or stop"
    blocked = "1 item blocks it" if len(items) == 1 else f"{len(items)} items block it"
    what = "was not reviewed" if turn.unreviewed else f"does not pass: {blocked}"
    first = f"The gate {phase}-qr-gate {what}. Decide: {choices}."
    page = "\n".join((f"# {first}", "", *(f"- {line}" for line in shown), "", _FORM))
    question = Question("decision", (first, *shown), page + "\n")
    return replace(turn.with_state(asked=phase, open=(), ended=()), question=question)


_FORM = 'Answer: {"decision": "continue" or "accept" or "stop", "reason": "..."}, or in short `accept: ...`'


def ask_about_work(turn: Turn) -> Turn:
    """Return the turn with a question to a person about steps of the current row that failed for good."""
    undone = [end for end in turn.state.ended if end.state != StepState.DONE]
    lines = [f"{end.step_id} {end.state}{f': {end.why}' if end.why else ''}" for end in undone[:MAX_TOLD]]
    shown = tuple(fit(line, 500) for line in lines)
    goes_on = turn.state.tries < MAX_CONTINUED
    choices = f"{'continue (they are tried again), ' if goes_on else ''}accept (with a reason) or stop"
    first = f"{turn.state.row} does not succeed: {len(undone)} of its steps failed or were skipped. Decide: {choices}."
    page = "\n".join((f"# {first}", "", *(f"- {line}" for line in shown), "", _FORM))
    return replace(turn.with_state(work_asked=True), question=Question("decision", (first, *shown), page + "\n"))


def read_decision(value: Any, continued: int) -> PersonsDecision | str:
    """Return a person's decision from an object or a text like `accept: reason`; a sentence if it is not valid.

    `continued` is how often people have sent this work back so far.
    """
    if isinstance(value, str):
        word, _, reason = value.strip().partition(":")
        value = {"decision": word.strip().lower(), "reason": reason.strip()}
    try:
        said = PersonsDecision.model_validate(value)
    except ValidationError as error:
        return f"This is no decision ({explain(error)}). {_FORM}."
    if said.decision == "accept" and not said.reason.strip():
        return "Accepting a failed review needs a reason, as in `accept: it will do`."
    if said.decision == "continue" and continued >= MAX_CONTINUED:
        return f"The work has been sent back {MAX_CONTINUED} times by a person: accept it with a reason, or stop."
    return said


def continue_loop(turn: Turn, phase: QrPhase) -> Turn:
    """Return the turn after giving a gate its full number of iterations again; all fail counts are 0."""
    loop, file = turn.loop(phase), turn.file(phase)
    limit = loop.iteration + turn.state.max_iterations - 1
    fresh = tuple(item.model_copy(update={"fail_count": 0}) for item in file.items)
    turn = turn.with_loop(phase, loop.model_copy(update={"continued": loop.continued + 1, "limit": limit}))
    return turn.with_file(file.model_copy(update={"items": fresh})).with_state(asked=None)


def overrule(turn: Turn, phase: QrPhase, reason: str) -> Turn:
    """Return the turn after a person let the gate pass and accepted its failed items with a reason."""
    file = turn.document.qr[phase]  # after the gate, at the iteration that was judged
    why = fit(reason, 1000)
    wrong = {item.id for item in file.items if item.status is not ItemStatus.PASS}
    file = gate.accept(file, wrong, why)
    record = gate.judge(file, gate.severities_at(turn.state.schedule, file.iteration), None)
    verdict = {"verdict": GateVerdict.ACCEPTED, "accepted": tuple(sorted(wrong)), "reason": why}
    return turn.with_file(file).with_record(record.model_copy(update=verdict)).with_state(asked=None)
