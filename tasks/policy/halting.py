"""The end of a plan before its time: what happens to the attempts in flight, and how it is explained (DESIGN.md 5)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.times import rfc3339
from tasks.errors import NeedsSteps
from tasks.fold import Fold
from tasks.policy import POLICY_VERSION, budget
from tasks.view import Step

# The smallest change that would let such a plan go on, by the rule that halted it.
UNBLOCK = MappingProxyType(
    {
        "security": "Look at what the controller did; only then send the goal again, with the file in allowed_files if "
        "it may be touched.",
        "budget": "Send the goal again with a higher limit for what is used up, or top a running plan up in time.",
        "wall_clock": "Send the goal again with a higher limits.wall_clock_s.",
        "consecutive_failures": "Read the failures above, then send the goal again with better context, or with a "
        "higher limits.consecutive_failures.",
        "identical_failure": "The same failure came again: change the goal or its context, or raise "
        "limits.identical_failures.",
        "flaky": "Make the verification reliable, or raise limits.flaky_flips.",
        "file_growth": "Split the goal, or raise limits.max_new_files or limits.max_growth_kb.",
        "lease_deaths": "Find out why controllers die or go silent, or raise limits.lease_deaths.",
        "cannot_revise": "Read why the failed steps failed; send the goal again with a higher retry_limit, smaller "
        "steps or better context.",
        "manual": "Send the goal again under a new goal_id.",
        "rejected": "Correct what the errors name and send the goal again under a new goal_id.",
        "approval_deadline": "Send the goal again and approve the step in time, or leave its risk out of approvals.",
        "approval_rejected": "Change the step that was rejected and send the goal again.",
    }
)


def halt(fold: Fold, rule: str, reason: str, evidence: Mapping[str, Any], failed: Step | None = None) -> None:
    """Halt the plan: every live attempt goes ACTIVE->FAILED->HALTED, waiting steps keep their state.

    `failed` is an ACTIVE step whose ended attempt is what halts the plan; it goes that way first. Raises NeedsSteps
    where the slice lacks steps that are in flight.
    """
    missing = frozenset(fold.view.active) - frozenset(fold.view.steps)
    if missing:
        raise NeedsSteps(missing)
    if failed:
        _halt_step(fold, failed, rule)
    for step_id in list(fold.view.active):
        step = fold.view.steps[step_id]
        budget.forfeit(fold.plan, fold.end_attempt(step))
        fold.change.cancelled.add(step_id)
        _halt_step(fold, step, rule)
    fold.plan.halt = {"rule": rule, "reason": reason, "evidence": _explained(fold, rule, evidence)}
    fold.plan.dirty.add("halt")
    if fold.plan.state == P.READY:
        fold.move_plan(P.EXECUTING.value, "executing")
    fold.move_plan(P.HALTED.value, "halted", reason=f"{rule}: {reason}")


def _halt_step(fold: Fold, step: Step, rule: str) -> None:
    fold.move_step(step, S.FAILED.value, "failed", reason=rule)
    fold.move_step(step, S.HALTED.value, "halted", reason=rule)


def _explained(fold: Fold, rule: str, evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Add what every halt is explained by: version, the failures that led to it, what would let the plan go on."""
    failed = evidence.get("failed", fold.plan.halting.get("failed", ()))
    return {
        **{name: value for name, value in evidence.items() if name != "failed"},
        "policy_version": POLICY_VERSION,
        "events": [
            {"step_id": step_id, "attempt": attempt, "category": category, "at": rfc3339(at)}
            for step_id, attempt, category, at in failed
        ],
        "unblock": UNBLOCK.get(rule, ""),
    }
