"""Connects steps with the answers of earlier steps, and marks the answers that the plan stores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from schemas.base import Mode
from schemas.step import MAX_ANSWERS_FROM, PlannedStep

MAX_LOOKED_AT = 64  # earlier steps that are visited


def connect_answers(steps: Sequence[PlannedStep], before: tuple[str, ...] = ()) -> tuple[PlannedStep, ...]:
    """Return `steps`, and give each one that patches or only answers the answers of the nearest steps before it.

    `before` are ids of earlier steps whose answers the plan stores; these come last. The plan stores all answers of
    `steps`, since people also read an answer that no step gets.
    """
    by_id = {step.step_id: step for step in steps}
    read = {
        step.step_id: (*islice(_answering_before(step, by_id), MAX_ANSWERS_FROM), *before)[:MAX_ANSWERS_FROM]
        for step in steps
        if step.mode is not Mode.TEST
    }
    return _connected(steps, read, {step.step_id for step in steps if step.mode is Mode.READ_ONLY})


def connect_supplied(steps: Sequence[PlannedStep]) -> tuple[PlannedStep, ...]:
    """Return the steps of a supplied plan, each with the answers of its direct dependencies only."""
    answering = {step.step_id for step in steps if step.mode is Mode.READ_ONLY}
    read = {
        step.step_id: tuple(dict.fromkeys(name for name in step.depends_on if name in answering))[:MAX_ANSWERS_FROM]
        for step in steps
    }
    return _connected(steps, read, {name for names in read.values() for name in names})


def _answering_before(step: PlannedStep, by_id: Mapping[str, PlannedStep]) -> Iterator[str]:
    """Yield the ids of the steps that answer and that `step` waits for, nearest first."""
    waiting, seen = list(step.depends_on), {step.step_id}
    while waiting and len(seen) <= MAX_LOOKED_AT:
        name = waiting.pop(0)
        if name not in seen and name in by_id:
            seen.add(name)
            waiting += by_id[name].depends_on
            if by_id[name].mode is Mode.READ_ONLY:
                yield name


def _connected(
    steps: Sequence[PlannedStep], read: Mapping[str, tuple[str, ...]], kept: Collection[str]
) -> tuple[PlannedStep, ...]:
    made: list[PlannedStep] = []
    for step in steps:
        names, keeps = read.get(step.step_id, ()), step.step_id in kept
        update = {"answers_from": names, "keeps_answer": keeps}
        made.append(step.model_copy(update=update) if names or keeps else step)
    return tuple(made)
