"""A plan's timer has run out -> change: clocks of its attempts, its wall clock, work left over.

A plan has one timer, at the earliest moment when something could be due. What keeps going does not move it: a timer
that comes too early finds that out and is set again, which costs a look a minute instead of two writes an attempt.
"""

from __future__ import annotations

from typing import Any

from schemas.base import FailureCategory
from schemas.stored import Attempt
from schemas.times import rfc3339
from tasks.base.errors import NeedsSteps
from tasks.handlers import outcomes
from tasks.plan.changeset import Change
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Clocks, Lease, Slice, Step
from tasks.plan.unit_of_work import Fold
from tasks.policy import halt, halt_rules, requests, waits
from tasks.policy.halt_rules import Seen
from tasks.policy.schedule import RUNNING_MARGIN_MS, SILENT_MS
from tasks.rules import quota

NO_CLOCKS = Clocks()
UNAPPLIED_MS = 1000  # until an attempt is looked at again whose outcome may wait to be applied


def apply(view: Slice, clocks: Clocks = NO_CLOCKS) -> Change:
    """Look at every clock of the plan, carry on with what is left over, and set the timer anew.

    Raises NeedsSteps where the slice lacks steps that are in flight; their leases are needed with them.
    """
    fold = Fold(view)
    missing = frozenset(view.active) - view.steps.keys()
    if missing:
        raise NeedsSteps(missing)
    fold.plan.wake = fold.change.wake = 0
    if fold.plan.state not in PLAN_ENDS:
        fold.plan.dirty.add("live")  # even where no clock runs any more, the old time must be forgotten
        waits.look_at_backoffs(fold)
        for step_id in list(view.active):
            if step_id in view.active:  # a halt ends them all
                _look_at_attempt(fold, view.steps[step_id], clocks)
    if fold.plan.state not in PLAN_ENDS:
        waits.count_outages(fold, clocks)
        _look_at_wall_clock(fold)
    if fold.plan.state not in PLAN_ENDS:
        waits.look_at_deadlines(fold)
    if fold.plan.state not in PLAN_ENDS:
        requests.look_at_deadline(fold, clocks.grace)
    return outcomes.advance(fold)


def _look_at_attempt(fold: Fold, step: Step, clocks: Clocks) -> None:
    live, now = fold.view.active[step.step_id], fold.view.now
    lease = fold.view.leases.get(step.step_id) or Lease(live.attempt, 0, 0)
    due, reason = _due(fold, step, live, lease, clocks)
    due = max(due, clocks.grace + SILENT_MS) if clocks.grace else due
    if now < due:
        fold.wake_at(due if lease.claimed else min(due, now + SILENT_MS))
    elif clocks.oldest and clocks.oldest <= due:  # its outcome may be among those that nobody has applied yet
        fold.wake_at(now + UNAPPLIED_MS)
    else:
        fold.change.guards[step.step_id] = lease.renewed
        _expire(fold, step, claimed=bool(lease.claimed), reason=reason)


def _due(fold: Fold, step: Step, live: Attempt, lease: Lease, clocks: Clocks) -> tuple[int, str]:
    """Say when the attempt has run out of time if nothing more is heard of it, and which clock that is."""
    if not lease.claimed:
        return live.deadline, f"no controller had claimed it by {rfc3339(live.deadline)}"
    verify_ms = 1000 * sum(tool["timeout_s"] for tool in step.facts["verify_tools"])
    # A lease is written by controllers: whatever stands there, the attempt ends at some time.
    claimed, renewed = min(lease.claimed, live.deadline), _renewed(lease.renewed, fold.view.now, clocks.grace)
    silent = renewed + SILENT_MS, "its controller went silent"
    if "still" in fold.plan.times:  # it may have been told to pause
        return silent
    over = claimed + verify_ms + RUNNING_MARGIN_MS + waits.rested_for(fold) - live.lost
    return min(silent, (over, "it ran past its time"))


def _renewed(renewed: int, now: int, grace: int) -> int:
    """Say when a lease was renewed for the last time.

    A time to come is from before the server's clock was set back. A controller that lives has renewed by the new clock
    within SILENT_MS of that, which is when sweeps saw it: `grace`.
    """
    if renewed - now <= SILENT_MS:
        return min(renewed, now)
    return min(grace or now, now)


def _expire(fold: Fold, step: Step, *, claimed: bool, reason: str) -> None:
    attempt = fold.end_attempt(step)
    failure: dict[str, Any] = {
        "category": FailureCategory.LEASE_EXPIRED.value,
        "failing_tests": (),
        "trace": reason,
        "suggestion": None,
    }
    fold.inputs.append(["expired", step.step_id, attempt.attempt, claimed, reason])
    quota.book(fold, attempt, claimed=claimed)
    if claimed:
        fold.plan.halting["lease_deaths"] = fold.plan.halting.get("lease_deaths", 0) + 1
        halt_rules.remember(fold, step, failure["category"])
    step.status.failures += claimed
    outcomes.fail(fold, step, failure, halt_rules.fired(Seen(fold.plan, step), failure))


def _look_at_wall_clock(fold: Fold) -> None:
    ends = waits.wall_clock_ends(fold)
    if ends is None:
        return
    if fold.view.now < ends:
        fold.wake_at(ends)
    else:
        limit, ready = fold.plan.limits["wall_clock_s"], fold.plan.times["ready"]
        values = {"value": (fold.view.now - ready) // 1000, "limit": limit, "limit_name": "wall_clock_s"}
        evidence = {**values, "limit_s": limit, "ready_at": rfc3339(ready)}
        fold.inputs.append(["wall clock over", ends])
        halt.halt(fold, "wall_clock", f"the plan took longer than its {limit} s", evidence)
