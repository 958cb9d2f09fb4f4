"""What the end of a step means for those that depend on it."""

from __future__ import annotations

from schemas.base import StepState as S
from tasks.plan.changeset import MAX_STEP_CHANGES
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt_rules, operator_changes, pre_steps

ACTIVE, FAILED = S.ACTIVE.value, S.FAILED.value
BLOCKED, PENDING, SKIPPED, DONE = S.BLOCKED.value, S.PENDING.value, S.SKIPPED.value, S.DONE.value


def propagate(unit: UnitOfWork) -> None:
    """Tell the dependents of every ended step, as far as snapshot and commit reach; the rest is left over.

    Work that was left over before is done first and taken off the list. Skips cascade one level a commit.
    """
    done, left = unit.snapshot.todo, []
    unit.change.todo_pop = len(done)
    waiting = [*done, *unit.ended_steps]
    while waiting:
        step_id, number = key = waiting.pop(0)
        window = unit.snapshot.windows.get(key)
        if window is None or len(unit.touched) + len(window.dependents) > MAX_STEP_CHANGES:
            left.append(key)
            continue
        satisfied = _is_satisfied(unit.snapshot.steps[step_id])
        for dependent in window.dependents:
            left.extend(_dependency_ended(unit, unit.snapshot.steps[dependent], step_id, satisfied))
        if window.more:
            left.append((step_id, number + 1))
    unit.change.todo_push = left
    unit.change.more = bool(left or unit.snapshot.todo_beyond)


def _is_satisfied(step: Step) -> bool:
    return step.status.state == DONE or bool(step.status.skipped_by)


def _dependency_ended(unit: UnitOfWork, step: Step, dependency: str, satisfied: bool) -> list[tuple[str, int]]:
    """Count one dependency less; a step that can never start is skipped, and its own dependents are left over."""
    status = step.status
    if status.state == ACTIVE and status.unmet:
        return _prepared(unit, step, dependency, satisfied)
    if status.state not in (BLOCKED, PENDING):
        return []
    status.unmet -= 1
    unit.touched[step.step_id] = step
    if not satisfied:
        status.skipped_by = ""  # an operator may have skipped it, but not what it relies on
        if status.state == BLOCKED:
            unit.move_step(step, PENDING)
        unit.move_step(step, SKIPPED, "skipped", f"dependency {dependency} did not succeed")
        return [(step.step_id, 0)]
    if status.unmet == 0 and status.state == BLOCKED:
        unit.move_step(step, PENDING)
        if status.skipped_by:
            operator_changes.end(unit, step, f"skipped by {status.skipped_by}")
            return [(step.step_id, 0)]
        unit.make_ready(step)
    return []


def _prepared(unit: UnitOfWork, step: Step, preparation: str, satisfied: bool) -> list[tuple[str, int]]:
    """Let a step that waits for its next attempt have it, or fail with what should have gone before it."""
    step.status.unmet -= 1
    unit.touched[step.step_id] = step
    if not satisfied:
        halt_rules.forget(unit, step)
        unit.move_step(step, FAILED, "failed", f"its preparation {preparation} did not succeed")
        return [(step.step_id, 0)]
    if unit.snapshot.steps[preparation].status.state == DONE:
        pre_steps.hand_on(step, unit.snapshot.steps[preparation])
    if step.status.unmet == 0:
        unit.make_ready(step)
    return []
