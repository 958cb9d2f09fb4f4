"""The end of a plan before its time: what happens to the attempts in flight (DESIGN.md section 5, "security halt")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import PlanState as P
from schemas.base import StepState as S
from tasks.errors import NeedsSteps
from tasks.fold import Fold
from tasks.policy import budget


def halt(fold: Fold, rule: str, reason: str, evidence: Mapping[str, Any]) -> None:
    """Halt the plan: every live attempt goes ACTIVE->FAILED->HALTED, waiting steps keep their state.

    Raises NeedsSteps where the slice lacks steps that are in flight.
    """
    missing = frozenset(fold.view.active) - frozenset(fold.view.steps)
    if missing:
        raise NeedsSteps(missing)
    for step_id in list(fold.view.active):
        step = fold.view.steps[step_id]
        budget.forfeit(fold.plan, fold.end_attempt(step))
        fold.move_step(step, S.FAILED.value, "failed", reason=rule)
        fold.move_step(step, S.HALTED.value, "halted", reason=rule)
    fold.plan.halt = {"rule": rule, "reason": reason, "evidence": dict(evidence)}
    fold.plan.dirty.add("halt")
    if fold.plan.state == P.READY:
        fold.move_plan(P.EXECUTING.value, "executing")
    fold.move_plan(P.HALTED.value, "halted", reason=f"{rule}: {reason}")
