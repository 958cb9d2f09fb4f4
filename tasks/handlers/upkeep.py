"""Handles a plan whose timer has run out: it checks the clocks of the plan and goes on with left-over work.

A plan has one timer, at the earliest time when something could be due. Progress does not move the timer: a timer that
fires too early is set again. That costs one look each minute instead of two writes for each attempt.
"""

from __future__ import annotations

from typing import Any

from schemas.base import FailureCategory
from schemas.stored import Attempt
from schemas.times import rfc3339
from tasks.base.errors import NeedsSteps
from tasks.plan.changeset import Changeset
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Clocks, Lease, Snapshot, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import failing, halt, halt_rules, pipeline, waits
from tasks.policy.halt_rules import Seen
from tasks.policy.schedule import advance
from tasks.policy.starts import LONGEST_SILENT_MS, RUNNING_MARGIN_MS, SILENT_MS, verify_ms
from tasks.rules import budget

NO_CLOCKS = Clocks()
UNAPPLIED_MS = 1000  # until the next look at an attempt whose outcome may wait to be applied


def apply(snapshot: Snapshot, clocks: Clocks = NO_CLOCKS) -> Changeset:
    """Check every clock of the plan, continue left-over work, and set the timer again.

    Raises NeedsSteps if the snapshot lacks steps in flight; their leases are needed, too. Raises NeedsClaims if
    something waits for a file.
    """
    unit = UnitOfWork(snapshot)
    unit.is_timer = True
    missing = frozenset(snapshot.active) - snapshot.steps.keys()
    if missing:
        raise NeedsSteps(missing)
    if clocks != NO_CLOCKS:
        unit.around["clocks"] = [*clocks]
    unit.plan.wake = unit.change.wake = 0
    if unit.plan.state not in PLAN_ENDS:
        unit.plan.dirty.add("live")  # the old time must be dropped even if no clock runs any more
        waits.look_at_backoffs(unit)
        for look in pipeline.ON_TIMER:
            look(unit)
        for step_id in list(snapshot.active):
            if step_id in snapshot.active:  # a halt ends all of them
                _look_at_attempt(unit, snapshot.steps[step_id], clocks)
    if unit.plan.state not in PLAN_ENDS:
        waits.count_outages(unit, clocks)
        _look_at_wall_clock(unit)
    if unit.plan.state not in PLAN_ENDS:
        waits.look_at_approvals(unit)
    if unit.plan.state not in PLAN_ENDS:
        waits.look_at_question(unit, clocks.grace)
    return advance(unit)


def _look_at_attempt(unit: UnitOfWork, step: Step, clocks: Clocks) -> None:
    live, now = unit.snapshot.active[step.step_id], unit.snapshot.now
    lease = unit.snapshot.leases.get(step.step_id) or Lease(live.attempt, 0, 0)
    due, reason = _due(unit, step, live, lease, clocks)
    due = max(due, clocks.grace + _silent_ms(lease)) if clocks.grace else due
    if now < due:
        unit.wake_at(due if lease.claimed else min(due, now + SILENT_MS))
    elif clocks.oldest and clocks.oldest <= due:  # its outcome may wait to be applied
        unit.wake_at(now + UNAPPLIED_MS)
    else:
        unit.change.guards[step.step_id] = lease.renewed
        _expire(unit, step, claimed=bool(lease.claimed), reason=reason)


def _due(unit: UnitOfWork, step: Step, live: Attempt, lease: Lease, clocks: Clocks) -> tuple[int, str]:
    """Return when an attempt without another sign of life runs out of time (ms), and why, as a text."""
    now = unit.snapshot.now
    delivered_by = unit.plan.delivery.due if unit.is_delivering else None
    if not lease.claimed:
        until = (delivered_by or now + SILENT_MS) if unit.is_delivering else live.deadline
        return until, f"no controller had claimed it by {rfc3339(until)}"
    # A time in the future is from before the server's clock was set back. A live controller renews within its time
    # after sweeps saw the new clock: `grace`.
    silent_ms = _silent_ms(lease)
    renewed = lease.renewed if lease.renewed - now <= silent_ms else clocks.grace or now
    silent = min(renewed, now) + silent_ms, "its controller went silent"
    if "still" in unit.plan.times and not delivered_by:  # its controller may have paused
        return silent
    # Controllers write leases: with any content of a lease, the attempt ends at some time.
    rested = delivered_by - live.deadline if delivered_by else unit.rested - live.lost
    over = min(lease.claimed, live.deadline) + verify_ms(step.facts) + RUNNING_MARGIN_MS + rested
    return min(silent, (over, "it ran past its time"))


def _silent_ms(lease: Lease) -> int:
    """Return how long a controller may be silent (ms): as long as it asked for in its claim, within bounds."""
    return min(max(SILENT_MS, lease.ttl), LONGEST_SILENT_MS)


def _expire(unit: UnitOfWork, step: Step, *, claimed: bool, reason: str) -> None:
    attempt = unit.end_attempt(step)
    failure: dict[str, Any] = {
        "category": FailureCategory.LEASE_EXPIRED.value,
        "failing_tests": (),
        "trace": reason,
        "suggestion": None,
    }
    unit.inputs.append(["expired", step.step_id, attempt.attempt, claimed, reason])
    budget.settle_without_outcome(unit, step.step_id, attempt, claimed=claimed)
    if any(expire(unit, step, failure, claimed) for expire in pipeline.EXPIRED):
        return
    if claimed:
        unit.plan.counters.lease_deaths += 1
        halt_rules.remember(unit.plan, step, failure["category"], unit.snapshot.now)
    step.status.failures += claimed
    failing.fail(unit, step, failure, Seen(unit.plan, step))


def _look_at_wall_clock(unit: UnitOfWork) -> None:
    ends = waits.wall_clock_ends(unit.plan)
    if ends is None:
        return
    if unit.snapshot.now < ends:
        unit.wake_at(ends)
    else:
        limit, ready = unit.plan.limits["wall_clock_s"], unit.plan.times["ready"]
        took, back = unit.snapshot.now - ready, unit.plan.times.get("lost", 0)
        values = {"value": (took - back) // 1000, "limit": limit, "limit_name": "wall_clock_s"}
        values |= {"given_back_s": back // 1000, "limit_s": limit, "ready_at": rfc3339(ready)}
        evidence = dict(values)
        for explain in pipeline.AT_WALL_CLOCK:
            evidence |= explain(unit)
        unit.inputs.append(["wall clock over", ends])
        halt.halt(unit, "wall_clock", f"the plan took longer than its {limit} s", evidence)
