"""The reason why no step of a live plan runs, by its pauses, its questions, and the activity of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from schemas.delivered import DeliveryState
from schemas.plan import BreakerView, PlanSummary, StandingStill, StepActivity
from tasks.plan.file_claims import REVIEW, WAITING, wait_reason
from tasks.plan.lifecycle import DRAFT

RUNNING, QUEUED, HELD, BACKOFF = "running", "queued", "held", "backoff"  # kinds of StepActivity
Doing: TypeAlias = Mapping[str, StepActivity]  # what steps do, by their ids, in their planned order where it is known
FULL = wait_reason(REVIEW, "")
MOST_NAMED = 5  # queues, files and steps in a detail


def find_standing_still(
    plan: PlanSummary, doing: Doing, breaker: BreakerView | None, queues: Mapping[str, str] = MappingProxyType({})
) -> StandingStill | None:
    """Return why nothing moves; None if the plan has ended, runs a step, or only waits for its turn.

    `queues` are the known queues of the steps in `doing`.
    """
    if plan.ended_at or any(each.kind == RUNNING for each in doing.values()):
        return None
    if breaker:
        return StandingStill(reason="breaker", since=breaker.since, detail=breaker.reason)
    if plan.paused_by:
        if plan.paused_by.startswith(FULL):
            return StandingStill(reason="review", detail=plan.paused_by)
        is_files = plan.paused_by.startswith(WAITING)
        by = plan.paused_by.replace(":  (", " (").removesuffix(": ")
        return StandingStill(reason="files" if is_files else "paused", detail=by if is_files else f"paused by {by}")
    if plan.waiting and plan.waiting.kind == DRAFT:
        until = f" until {plan.waiting.until}" if plan.waiting.until else ""
        return StandingStill(reason="drafter", detail=f"a drafter is asked{until}")
    return _of_steps(plan, doing, queues)


def _of_steps(plan: PlanSummary, doing: Doing, queues: Mapping[str, str]) -> StandingStill | None:
    unread = {step: each for step, each in doing.items() if each.kind == QUEUED and each.reason}
    if any(each.kind == QUEUED and not each.reason for each in doing.values()):
        return None  # it waits for its turn: a controller reads its queue
    if unread:
        since = min((each.since for each in unread.values() if each.since), default=None)
        names = _first(dict.fromkeys(f"`{queues[step]}`" for step in unread if step in queues), ", ")
        detail = f"no controller reads queue {names}" if names else next(iter(unread.values())).reason or ""
        return StandingStill(reason="no_controller", since=since, detail=detail)
    if plan.waiting:
        return StandingStill(reason="person", detail=_first(plan.waiting.questions))
    if later := [(step, each) for step, each in doing.items() if each.kind == BACKOFF]:
        step, each = min(later, key=lambda pair: (pair[1].reason is None, pair[1].until or ""))
        begins = f"the next attempt of {step} begins at {each.until}"
        if plan.delivery and plan.delivery.state is DeliveryState.DELIVERABLE:
            return StandingStill(reason="review", since=plan.delivery.since, detail=each.reason or begins)
        if each.reason:
            return StandingStill(reason="handed_back", since=each.since, detail=f"{each.reason}; {begins}")
        return StandingStill(reason="backoff", detail=begins)
    if held := [each for each in doing.values() if each.kind == HELD]:
        is_files = any((each.reason or "").startswith(WAITING) for each in held)
        detail = _first(dict.fromkeys(each.reason or "" for each in held))
        return StandingStill(reason="files" if is_files else "paused", detail=detail)
    return None


def _first(texts: Iterable[str], joint: str = "; ") -> str:
    known = [*texts]
    more = len(known) - MOST_NAMED
    return joint.join(known[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
