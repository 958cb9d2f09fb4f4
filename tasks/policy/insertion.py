"""Inserts a step between a done step and the steps that waited for it."""

from __future__ import annotations

from schemas.step import PlannedStep
from tasks.base.errors import NeedsSteps
from tasks.plan.snapshot import Step, Window
from tasks.plan.unit_of_work import UnitOfWork


def waiting_for(unit: UnitOfWork, step: Step) -> list[Step] | None:
    """Return the steps that wait for `step`; None if they are too many to be rewritten.

    Raises NeedsSteps if the snapshot lacks one of them.
    """
    window = unit.snapshot.windows.get((step.step_id, 0), Window(()))
    if window.more:
        return None
    waiting = [unit.snapshot.steps[name] for name in window.dependents]
    if missing := frozenset(each.step_id for each in waiting if each.spec is None):
        raise NeedsSteps(missing)
    return waiting


def insert_behind(unit: UnitOfWork, step: Step, made: PlannedStep, waiting: list[Step], rule: str, why: str) -> None:
    """Insert `made`, which only depends on `step`, between `step` and the steps `waiting` for it."""
    unit.plan.structure.taken = [*unit.plan.structure.taken, made.step_id]
    for each in waiting:
        _wait_for(unit, each, step.step_id, made.step_id)
    unit.pass_revising(why)
    unit.insert((made,), step.status.index, {made.step_id: [each.step_id for each in waiting]})
    unit.snapshot.windows[step.step_id, 0] = Window((made.step_id,))
    if unit.strategy_state:
        unit.keep_strategy_state(ids=[*unit.strategy_state["ids"], made.step_id])
    unit.log_added((made.step_id,), rule, why)


def _wait_for(unit: UnitOfWork, step: Step, was: str, now: str) -> None:
    planned = PlannedStep.model_validate(step.facts)
    waits = tuple(now if name == was else name for name in planned.depends_on)
    unit.rewrite(step, planned.model_copy(update={"depends_on": waits}))
