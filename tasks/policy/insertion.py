"""Steps put into a plan: their records, who hears of their ends, their places in the ready queue."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.base import StepState as S
from schemas.step import PlannedStep, pack_step
from schemas.stored import StepStatus
from tasks.base.batches import batches
from tasks.plan.snapshot import WINDOW, Step
from tasks.plan.unit_of_work import Fold


def new_step(index: int, planned: PlannedStep) -> Step:
    """Make the record of a step that nothing has happened to; `index` is its place among the plan's steps."""
    state = S.BLOCKED if planned.depends_on else S.PENDING
    status = StepStatus(len(set(planned.depends_on)), state.value, index)
    return Step(planned.step_id, pack_step(planned), status)


def dependents_of(steps: Sequence[PlannedStep]) -> dict[str, list[str]]:
    """Find for each step those that wait for it."""
    found: dict[str, list[str]] = {}
    for step in steps:
        for dependency in dict.fromkeys(step.depends_on):
            found.setdefault(dependency, []).append(step.step_id)
    return found


def insert(fold: Fold, steps: Sequence[Step], dependents: dict[str, list[str]]) -> None:
    """Put steps into the plan; those that wait for nothing are ready."""
    counts = fold.plan.counts
    for step in steps:
        state = step.status.state
        counts[state] = counts.get(state, 0) + 1
        fold.touched[step.step_id] = fold.view.steps[step.step_id] = step
        fold.change.specs.update(_stored(step, dependents.get(step.step_id, ())))
        if state == S.PENDING:
            fold.make_ready(step)
    fold.plan.dirty.add("live")


def _stored(step: Step, dependents: Sequence[str]) -> dict[str, bytes]:
    """Lay out a step for the store: its spec, and its dependents in windows of WINDOW ids."""
    stored = {step.step_id: step.spec or b""}
    for number, window in enumerate(batches(dependents, WINDOW)):
        stored[f">{step.step_id}:{number}"] = " ".join(window).encode()
    return stored
