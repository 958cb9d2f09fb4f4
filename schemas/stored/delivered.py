"""A delivered change as it is kept in Redis with the record of its goal: it outlives the plan."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from schemas.delivered import DeliveryState, DeliveryView, FollowUpView
from schemas.times import rfc3339

Why = Literal["checks", "review", "target"]


class FollowUp(BaseModel):
    """A goal that was made because of a delivered change; `head` is the branch's newest commit at that time."""

    goal_id: str
    why: Why
    head: str
    threads: list[str] = []  # of the review, which it is to answer
    text: str = ""  # the request, or the failure; data from outside
    failing_tests: list[str] = []
    log: str = ""
    plan_id: str = ""
    ended: bool = False
    ended_at: int = 0  # when its plan was first seen to have ended


class Act(BaseModel):
    """A task at the forge or in the planner that is not done yet; `announce` reports a move to the state `text`."""

    kind: Literal["announce", "follow_up", "answer", "comment", "ready", "run_again", "cancel"]
    about: str = ""  # the state before, the goal, the thread, or the run
    text: str = ""
    at: int = 0  # of a move


class DeliveredChange(BaseModel):
    """A delivered change with its history; all times are in ms since the epoch."""

    plan_id: str
    goal_id: str
    tenant: str
    repo: str
    branch: str
    plan_head: str = ""  # as the plan keeps it, for callbacks
    state: DeliveryState = DeliveryState.OPEN
    times: dict[DeliveryState, int] = Field(default_factory=dict)
    number: int = 0  # of the pull request
    head: str = ""
    merged_as: list[str] = []  # commits that it became
    target: str = ""
    seen: list[str] = []  # heads whose red checks were looked at
    run_again: dict[str, int] = {}  # by head whose checks were run again: until when their old result is shown
    was_made_ready: bool = False
    follow_ups: list[FollowUp] = []
    handed_over: str = ""
    todo: list[Act] = []
    busy_until: int = 0  # until then one worker does the tasks, and no other one looks
    answered: list[str] = []  # threads

    def rounds(self, why: Why) -> int:
        """Return the number of follow-up plans for the reason `why`."""
        return sum(each.why == why for each in self.follow_ups)

    @property
    def in_flight(self) -> FollowUp | None:
        """The follow-up plan that has not ended."""
        return next((each for each in self.follow_ups if not each.ended), None)

    @property
    def plans(self) -> frozenset[str]:
        """The plans whose commits may be on the branch."""
        return frozenset({self.plan_id, *(each.plan_id for each in self.follow_ups if each.plan_id)})

    def view(self) -> DeliveryView:
        """Return the view of it in `planner show`."""
        return DeliveryView(
            state=self.state,
            since=rfc3339(self.times[self.state]),
            times={state.value: rfc3339(at) for state, at in self.times.items()},
            head=self.head or None,
            handed_over=self.handed_over or None,
            follow_ups=tuple(
                FollowUpView(goal_id=each.goal_id, why=each.why, plan_id=each.plan_id or None, ended=each.ended)
                for each in self.follow_ups
            ),
        )
