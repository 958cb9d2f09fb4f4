"""A step that an operator skips counts as satisfied: those that depend on it go on as if it were done."""

from __future__ import annotations

from schemas.base import StepState as S
from tasks.base.errors import NeedsSteps
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import Fold
from tasks.policy import halt_rules

BLOCKED, PENDING, ACTIVE = S.BLOCKED.value, S.PENDING.value, S.ACTIVE.value
SKIPPED, FAILED = S.SKIPPED.value, S.FAILED.value


def skip(fold: Fold, step: Step, actor: str, reason: str) -> str | None:
    """Skip a step that has not ended; returns why that cannot be.

    A step that waits for others is skipped in its turn, for what depends on it also relies on them. One that was tried
    before ends as FAILED, since that is all that the step machine has for it; its preparation goes with it. Raises
    NeedsSteps where the slice lacks that.
    """
    status = step.status
    if status.skipped_by:
        return "the step will be skipped in its turn anyway"
    going = [step, *_preparations(fold, step)]
    for each in going:
        if each.step_id in fold.view.active:
            return f"an attempt of {each.step_id} is in flight: pause the plan, and skip the step when it has ended"
    status.skipped_by = actor
    if status.state == BLOCKED:
        fold.touched[step.step_id] = step
        return None
    for each in going:
        each.status.skipped_by = actor
        end(fold, each, f"{actor}: {reason}")
        fold.end_step(each)
    return None


def end(fold: Fold, step: Step, reason: str) -> None:
    """Take a step that an operator skips to its end; its dependents have yet to hear of it."""
    halt_rules.forget(fold, step)
    fold.withdraw(step)
    fold.plan.halting["skipped_by_operator"] = fold.plan.halting.get("skipped_by_operator", 0) + 1
    fold.move_step(step, FAILED if step.status.state == ACTIVE else SKIPPED, "skipped", reason)


def _preparations(fold: Fold, step: Step) -> list[Step]:
    """Find what has to end before the next attempt of `step`: the last step that it came to depend on, if any."""
    if step.status.state != ACTIVE or not step.status.unmet:
        return []
    name = step.facts["depends_on"][-1]
    if name not in fold.view.steps:
        raise NeedsSteps(frozenset({name}))
    found = fold.view.steps[name]
    return [found] if found.status.state in (PENDING, ACTIVE) else []
