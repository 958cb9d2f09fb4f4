"""Handles steps that search for code: the places (files with lines) in their answer become the focus of later steps.

An answer is data from outside, JSON or prose. Only files that the goal allows count, and a step gets the places of
files that it may change. If an answer names no place, the step is asked once again, and this is no failure. If the
second answer names none either, the plan goes on without places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas import codec
from schemas.base import FailureCategory, GoalKind, Mode
from schemas.base import StepState as S
from schemas.kinds.places import PLACES_SCHEMA
from schemas.step import MAX_FOCUS, Place, PlannedStep, PreviousFailure, fields_of
from tasks.base.errors import EVERY_STEP, NeedsSteps
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import expansion
from tasks.policy.giving_files import goal_of
from tasks.policy.insertion import waiting_for
from tasks.policy.pipeline import AFTER_END, INPUT, JUDGES, Feature, Judgement, always
from tasks.rules.permission import Allowlist, is_permitted
from tasks.strategies.drafting.scope import MAX_BYTES
from tasks.text.forbidden_paths import JUDGED
from tasks.text.places import NOTHING_NAMED, places_in

ANSWERED = "{} names it."
MOST_READ = 128  # steps of a plan that is read whole for an answer
WAITING = frozenset({S.PENDING.value, S.BLOCKED.value})


def input_for(unit: UnitOfWork, step: Step) -> Mapping[str, Any]:
    """Return the schema of the answer, in addition to the input of the plan's strategy."""
    return {**(expansion.input_for(unit, step) or {}), "schema": PLACES_SCHEMA}


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Ask a step again if its answer names no place."""
    step = seen.step
    if seen.failure or seen.handed_back or seen.previous.get("category") == FailureCategory.OUTPUT_REFUSED:
        return False
    if unit.plan.head.kind == GoalKind.TASK.value:
        why = None if _found(unit, seen) else NOTHING_NAMED
    else:
        why = expansion.refusal(unit, seen)
    if why is None:
        return False
    unit.inputs.append(["no place", step.step_id, step.status.attempt])
    refused = PreviousFailure(category=FailureCategory.OUTPUT_REFUSED.value, suggestion=why)
    step.status.previous = refused.model_dump()
    unit.move_step(step, S.ACTIVE.value, "retried", why)
    unit.make_ready(step)
    return True


def hand_on(unit: UnitOfWork, seen: Judgement) -> None:
    """Add the places of a done step's answer, and the places in its own focus, to the focus of later steps.

    Later steps are those that wait for this step or get its answer. Raises NeedsSteps if the snapshot lacks one of
    them.
    """
    step = seen.step
    if unit.plan.state in PLAN_ENDS or not (found := _found(unit, seen)):
        return
    for each in _behind(unit, step):
        was = PlannedStep.model_validate(each.facts)
        if was.mode is not Mode.TEST:
            places = (*found, *map(Place.model_validate, step.facts["focus"]), *was.focus)
            unit.rewrite(each, was.model_copy(update={"focus": _fitting(was, places)}))


def _behind(unit: UnitOfWork, step: Step) -> list[Step]:
    """Return the steps that wait for `step` or get its answer; in a plan with many steps only the first kind.

    Raises NeedsSteps if the snapshot lacks one of them.
    """
    waiting = waiting_for(unit, step) or []
    known = [each for each in unit.snapshot.steps.values() if each.spec is not None]
    count = sum(unit.plan.counts.values())
    if count > MOST_READ:
        return waiting
    if len(known) < count:
        raise NeedsSteps(frozenset({EVERY_STEP}))
    named = {each.step_id for each in waiting}
    given = (each for each in known if step.step_id in each.facts["answers_from"] and each.step_id not in named)
    return [*waiting, *(each for each in given if each.status.state in WAITING)]


def _found(unit: UnitOfWork, seen: Judgement) -> list[Place]:
    """Return the places of an answer that the goal allows; all of them if the goal was not stored."""
    kept = goal_of(unit).get("allowed")
    allowed = Allowlist.of(kept, JUDGED) if kept else None
    why = ANSWERED.format(seen.step.step_id)
    found = (Place(path=path, lines=lines, why=said or why) for path, lines, said in places_in(seen.outcome.output))
    return [place for place in found if allowed is None or place.path in allowed]


def _fitting(step: PlannedStep, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Return the places in files that a step may change, each file once, up to a size; a reading step gets all."""
    room = MAX_BYTES - len(codec.dumps([step.allowed_files, step.allowed_patterns, []]))
    facts, kept = fields_of(step), dict[str, Place]()
    for place in places:
        if place.path in kept or not (step.mode is not Mode.PATCH or is_permitted(facts, place.path)):
            continue
        room -= len(codec.dumps(place, fields_of)) + 1
        if room < 0 or len(kept) == MAX_FOCUS:
            break
        kept[place.path] = place
    return tuple(kept.values())


FEATURE = Feature(
    "places",
    (
        INPUT.row(input_for, fact="finds_places"),
        JUDGES.row(judge, fact="finds_places"),
        AFTER_END.row(hand_on, fact="finds_places"),
    ),
    is_idle=always,
    end_fields=("finds_places",),
    start_fields=("finds_places",),
)
