"""What waits for a person, and the clock that stands still meanwhile (DESIGN.md section 5, "wall clock", "approve")."""

from __future__ import annotations

from schemas.times import rfc3339
from tasks.fold import Fold
from tasks.policy import halting
from tasks.view import Step

APPROVAL_MS = 7 * 86_400_000  # each wait for a person has its own deadline


def needs_approval(fold: Fold, step: Step) -> bool:
    """Whether `step` may not start before a person has approved it."""
    levels = fold.plan.head.approvals
    return bool(levels) and step.status.approval in ("", "asked") and step.facts["risk_level"] in levels


def ask(fold: Fold, step: Step) -> None:
    """Take a ready step out of the queue until a person approves it; it holds no slot and no file."""
    del fold.ready[step.step_id]
    until = fold.view.now + APPROVAL_MS
    step.status.approval = "asked"
    fold.touched[step.step_id] = step
    fold.plan.waits[step.step_id] = until
    fold.plan.dirty.add("live")
    fold.wake_at(until)
    fold.tell("step.approval_requested", {"step_id": step.step_id, "until": rfc3339(until)}, step.facts["risk_level"])


def look_at_deadlines(fold: Fold) -> None:
    """Halt the plan if a person has let a wait run out; else wake up again for the next one."""
    for step_id, until in fold.plan.waits.items():
        if fold.view.now < until:
            fold.wake_at(until)
        else:
            reason = f"nobody approved {step_id} by {rfc3339(until)}"
            halting.halt(fold, "approval_deadline", reason, {"step_id": step_id, "until": rfc3339(until)})
            return


def keep_time(fold: Fold) -> None:
    """Stop the wall clock while the plan is paused or all that is open waits for a person; start it again after."""
    plan, times = fold.plan, fold.plan.times
    still = bool(plan.paused) or bool(plan.waits and not fold.view.active and not fold.ready)
    if still and "still" not in times:
        times["still"] = fold.view.now
        plan.dirty.add("live")
    elif not still and "still" in times:
        times["lost"] = times.get("lost", 0) + fold.view.now - times.pop("still")
        fold.wake_at(wall_clock_ends(fold) or fold.view.now)


def wall_clock_ends(fold: Fold) -> int | None:
    """Say when the plan's wall clock runs out, ms; None while it stands still or has no limit."""
    times, limit = fold.plan.times, fold.plan.limits["wall_clock_s"]
    if limit is None or "ready" not in times or "still" in times:
        return None
    return times["ready"] + 1000 * limit + times.get("lost", 0)
