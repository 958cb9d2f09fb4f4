"""Why no step of a live plan runs: found from its pauses, its questions, and the activity of its steps."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.plan import PlanView, StandingStill, StepActivity, StepView
from tasks.plan.file_claims import WAITING
from tasks.policy.waits import DRAFT

RUNNING, QUEUED, HELD, BACKOFF = "running", "queued", "held", "backoff"  # kinds of StepActivity
MOST_NAMED = 5  # queues, files and steps in a detail


def find_standing_still(plan: PlanView) -> StandingStill | None:
    """Return why nothing moves; None of a plan that has ended, that runs a step, or that waits for its turn alone.

    The activity of the steps has to be there.
    """
    if plan.ended_at or any(step.activity and step.activity.kind == RUNNING for step in plan.steps):
        return None
    if plan.breaker:
        return StandingStill(reason="breaker", since=plan.breaker.since, detail=plan.breaker.reason)
    if plan.paused_by:
        is_files = plan.paused_by.startswith(WAITING)
        by = plan.paused_by.replace(":  (", " (").removesuffix(": ")
        return StandingStill(reason="files" if is_files else "paused", detail=by if is_files else f"paused by {by}")
    if plan.waiting and plan.waiting.kind == DRAFT:
        until = f" until {plan.waiting.until}" if plan.waiting.until else ""
        return StandingStill(reason="drafter", detail=f"a drafter is asked{until}")
    return _of_steps(plan)


def _of_steps(plan: PlanView) -> StandingStill | None:
    doing = [(step, step.activity) for step in plan.steps if step.activity]
    unread = [(step, each) for step, each in doing if each.kind == QUEUED and each.reason]
    if any(each.kind == QUEUED and not each.reason for _, each in doing):
        return None  # it waits for its turn: somebody reads its queue
    if unread:
        queues = _first(dict.fromkeys(f"`{step.queue}`" for step, _ in unread), ", ")
        return StandingStill(reason="no_controller", since=_since(unread), detail=f"no controller reads queue {queues}")
    if plan.waiting:
        return StandingStill(reason="person", detail=_first(plan.waiting.questions))
    if later := [(step, each) for step, each in doing if each.kind == BACKOFF]:
        step, each = min(later, key=lambda pair: (pair[1].reason is None, pair[1].until or ""))
        begins = f"the next attempt of {step.step_id} begins at {each.until}"
        if each.reason:
            return StandingStill(reason="handed_back", since=each.since, detail=f"{each.reason}; {begins}")
        return StandingStill(reason="backoff", detail=begins)
    if held := [(step, each) for step, each in doing if each.kind == HELD]:
        is_files = any((each.reason or "").startswith(WAITING) for _, each in held)
        detail = _first(dict.fromkeys(each.reason or "" for _, each in held))
        return StandingStill(reason="files" if is_files else "paused", detail=detail)
    return None


def _since(doing: Iterable[tuple[StepView, StepActivity]]) -> str | None:
    return min((each.since for _, each in doing if each.since), default=None)


def _first(texts: Iterable[str], joint: str = "; ") -> str:
    known = [*texts]
    more = len(known) - MOST_NAMED
    return joint.join(known[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
