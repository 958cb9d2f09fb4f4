"""Due timers -> change: clocks of attempts and plans, and work that was left over (DESIGN.md sections 3 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.base import FailureCategory
from schemas.stored import Attempt
from schemas.times import rfc3339
from tasks import outcomes
from tasks.change import Change
from tasks.fold import Fold, timer
from tasks.policy import budget, halting
from tasks.policy.dispatch import RUNNING_MARGIN_MS, SILENT_MS
from tasks.policy.lifecycle import PLAN_ENDS
from tasks.view import Lease, Slice, Step


@dataclass(frozen=True, slots=True)
class Due:
    """A clock that has run out: of an attempt (`attempt`), of the plan (`wall`), or left-over work (`todo`)."""

    step_id: str
    attempt: int
    kind: str

    @classmethod
    def parse(cls, member: str) -> tuple[str, Due]:
        """Read a member of the timer set; returns its plan and the clock."""
        plan_id, step_id, attempt, kind = member.split("|")
        return plan_id, cls(step_id, int(attempt), kind)


def apply(view: Slice, due: Sequence[Due]) -> Change:
    """Handle every clock that has run out, then carry on with the plan; a clock without a purpose just goes."""
    fold = Fold(view)
    for clock in due:
        fold.change.timers_remove.append(timer(view.plan_id, clock.step_id, clock.attempt, clock.kind))
        if view.record.state not in PLAN_ENDS:
            _HANDLERS[clock.kind](fold, clock)
    return outcomes.advance(fold)


def _attempt(fold: Fold, clock: Due) -> None:
    live = fold.view.active.get(clock.step_id)
    if live is None or live.attempt != clock.attempt:
        return
    step = fold.view.steps[clock.step_id]
    lease = fold.view.leases.get(clock.step_id) or Lease(live.attempt, 0, 0)
    due, reason = _next_look(step, live, lease)
    if fold.view.now < due:
        fold.change.timers_add[timer(fold.view.plan_id, clock.step_id, clock.attempt, clock.kind)] = due
        fold.change.timers_remove.pop()
    else:
        _expire(fold, step, claimed=bool(lease.claimed), reason=reason)


def _next_look(step: Step, live: Attempt, lease: Lease) -> tuple[int, str]:
    """Say when the attempt has run out of time if nothing more is heard of it, and which clock that is."""
    if not lease.claimed:
        return live.deadline, f"no controller had claimed it by {rfc3339(live.deadline)}"
    verify_ms = 1000 * sum(tool["timeout_s"] for tool in step.facts["verify_tools"])
    silent, over = lease.renewed + SILENT_MS, lease.claimed + verify_ms + RUNNING_MARGIN_MS
    return min((silent, "its controller went silent"), (over, "it ran past its time"))


def _expire(fold: Fold, step: Step, *, claimed: bool, reason: str) -> None:
    attempt = fold.end_attempt(step)
    failure = {
        "category": FailureCategory.LEASE_EXPIRED.value,
        "failing_tests": (),
        "trace": reason,
        "suggestion": None,
    }
    fold.inputs.append(["expired", step.step_id, attempt.attempt, claimed, reason])
    if claimed:
        budget.forfeit(fold.plan, attempt)
        fold.plan.halting["lease_deaths"] = fold.plan.halting.get("lease_deaths", 0) + 1
        fold.plan.dirty.add("halting")
    else:
        budget.release(fold.plan, attempt)
    outcomes.retry_or_fail(fold, step, failure, counts=claimed)


def _wall(fold: Fold, _: Due) -> None:
    plan = fold.plan
    reason = f"the plan took longer than its {plan.limits['wall_clock_s']} s"
    halting.halt(fold, "wall_clock", reason, {"limit_s": plan.limits["wall_clock_s"], "ready_at": plan.times["ready"]})


def _todo(_: Fold, __: Due) -> None:
    """Nothing of its own: what is left over is done by every decision about the plan."""


_HANDLERS = {"attempt": _attempt, "wall": _wall, "todo": _todo}
