"""Words for a change that a plan has delivered: its state at its forge until it is merged, and after that."""

from __future__ import annotations

from enum import StrEnum

from schemas.base import Outbound


class DeliveryState(StrEnum):
    """The state of a delivered change at its forge."""

    DELIVERABLE = "DELIVERABLE"  # waits until its repository takes one more
    OPEN = "OPEN"
    CHECKS_RED = "CHECKS_RED"
    CHANGES_ASKED = "CHANGES_ASKED"
    MERGED = "MERGED"
    CLOSED = "CLOSED"
    REVERTED = "REVERTED"


class FollowUpView(Outbound):
    """A plan that goes on from a delivered change: because of its `checks`, its `review` or its `target`."""

    goal_id: str
    why: str
    plan_id: str | None = None
    ended: bool


class DeliveryView(Outbound):
    """A delivered change; `times` has when it was last in each state, `handed_over` why a person goes on with it."""

    state: DeliveryState
    since: str
    times: dict[str, str]
    head: str | None = None
    handed_over: str | None = None
    follow_ups: tuple[FollowUpView, ...] = ()
