"""What the end of a step means for those that depend on it."""

from __future__ import annotations

from schemas.base import StepState as S
from tasks.plan.changeset import MAX_STEP_CHANGES
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import Fold
from tasks.policy import halt_rules, operator_changes, pre_steps

ACTIVE, FAILED = S.ACTIVE.value, S.FAILED.value
BLOCKED, PENDING, SKIPPED, DONE = S.BLOCKED.value, S.PENDING.value, S.SKIPPED.value, S.DONE.value


def propagate(fold: Fold) -> None:
    """Tell the dependents of every ended step, as far as slice and commit reach; the rest is left over.

    Work that was left over before is done first and taken off the list. Skips cascade one level a commit.
    """
    done, left = fold.view.todo, []
    fold.change.todo_pop = len(done)
    waiting = [*done, *fold.ended_steps]
    while waiting:
        step_id, number = key = waiting.pop(0)
        window = fold.view.windows.get(key)
        if window is None or len(fold.touched) + len(window.dependents) > MAX_STEP_CHANGES:
            left.append(key)
            continue
        satisfied = _is_satisfied(fold.view.steps[step_id])
        for dependent in window.dependents:
            left.extend(_dependency_ended(fold, fold.view.steps[dependent], step_id, satisfied))
        if window.more:
            left.append((step_id, number + 1))
    fold.change.todo_push = left
    fold.change.more = bool(left or fold.view.todo_beyond)


def _is_satisfied(step: Step) -> bool:
    return step.status.state == DONE or bool(step.status.skipped_by)


def _dependency_ended(fold: Fold, step: Step, dependency: str, satisfied: bool) -> list[tuple[str, int]]:
    """Count one dependency less; a step that can never start is skipped, and its own dependents are left over."""
    status = step.status
    if status.state == ACTIVE and status.unmet:
        return _prepared(fold, step, dependency, satisfied)
    if status.state not in (BLOCKED, PENDING):
        return []
    status.unmet -= 1
    fold.touched[step.step_id] = step
    if not satisfied:
        status.skipped_by = ""  # an operator may have skipped it, but not what it relies on
        if status.state == BLOCKED:
            fold.move_step(step, PENDING)
        fold.move_step(step, SKIPPED, "skipped", f"dependency {dependency} did not succeed")
        return [(step.step_id, 0)]
    if status.unmet == 0 and status.state == BLOCKED:
        fold.move_step(step, PENDING)
        if status.skipped_by:
            operator_changes.end(fold, step, f"skipped by {status.skipped_by}")
            return [(step.step_id, 0)]
        fold.make_ready(step)
    return []


def _prepared(fold: Fold, step: Step, preparation: str, satisfied: bool) -> list[tuple[str, int]]:
    """Let a step that waits for its next attempt have it, or fail with what should have gone before it."""
    step.status.unmet -= 1
    fold.touched[step.step_id] = step
    if not satisfied:
        halt_rules.forget(fold, step)
        fold.move_step(step, FAILED, "failed", f"its preparation {preparation} did not succeed")
        return [(step.step_id, 0)]
    if fold.view.steps[preparation].status.state == DONE:
        pre_steps.hand_on(step, fold.view.steps[preparation])
    if step.status.unmet == 0:
        fold.make_ready(step)
    return []
