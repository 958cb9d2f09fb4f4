"""A plan that the worker's own drafter is asked for: asked, judged and repeated as a step that drafts would be."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.envelope import FieldError
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, Growth, Rejected
from tasks.strategies.evolution.judging import judged, told
from tasks.strategies.evolution.making import Taken, planned
from tasks.strategies.evolution.plan import Parsed
from tasks.strategies.evolution.prompt import repairing
from tasks.strategies.evolution.state import given_up, mode_of, schema_of, state_of
from tasks.text.fields import fit

MAX_ERROR = 500


def consulted(growth: Growth, drafted: Sequence[Drafted]) -> Answer:
    """Ask, ask again with the errors of the last answer, make steps of a plan, or give up after the last attempt."""
    prompt, schema, mode = state_of(growth).prompt or "", schema_of(growth), mode_of(growth).value
    if not drafted:
        return Consult(prompt, schema, mode)
    found = _judged(growth, drafted[-1])
    if found.plan:
        notes = (*_refused(growth, drafted[:-1]), *found.notes)
        said = drafted[-1]
        taken = Taken(found.plan, said.output, len(drafted), _seconds(drafted), notes, said.command, said.stderr)
        return _made(growth, taken, sum(each.tokens for each in drafted))
    if len(drafted) >= state_of(growth).attempts:
        return _rejected(drafted, found.errors)
    if drafted[-1].error is not None:
        return Consult(prompt, schema, mode)
    return Consult(repairing(prompt, drafted[-1].output, found.errors), schema, mode)


def _judged(growth: Growth, said: Drafted) -> Parsed:
    if said.error is not None:
        error = FieldError(pointer="/drafter", code="no_answer", message=fit(said.error, MAX_ERROR) or "no answer")
        return Parsed(None, (error,))
    return judged(growth, said.output)


def _refused(growth: Growth, drafted: Sequence[Drafted]) -> tuple[str, ...]:
    errors = (told(_judged(growth, said).errors) for said in drafted)
    return tuple(fit(f"Attempt {number} was refused: {each}", MAX_ERROR) for number, each in enumerate(errors, 1))


def _seconds(drafted: Sequence[Drafted]) -> float:
    return sum(each.duration_ms for each in drafted) / 1000


def _made(growth: Growth, taken: Taken, tokens: int) -> Draft:
    found = planned(growth, taken)
    return Draft(found.steps, found.document, state=found.state, phases=found.phases, tokens=tokens)


def _rejected(drafted: Sequence[Drafted], errors: Sequence[FieldError]) -> Rejected:
    """Give up, as seed 004's PlanningError does: how often, how long, for how many tokens, and the last errors."""
    tokens = sum(each.tokens for each in drafted)
    said = f"{given_up(len(drafted))} in {_seconds(drafted):.1f} s for {tokens} tokens; the last errors follow."
    first = FieldError(pointer="/drafter", code="planning_failed", message=said)
    return Rejected("planning_failed", (first, *errors), tokens=tokens)
