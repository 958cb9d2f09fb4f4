"""The result of planning a goal, and the source of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.base import GoalVerdict
from schemas.envelope import Problem
from schemas.goal import Goal
from worker.drafters.consulting import NONE


def source_of(goal: Goal, drafter: str) -> str:
    """Return the source of a goal's steps: given, llm or pattern. A goal with its own steps needs no draft."""
    if goal.steps or (goal.campaign and goal.campaign.tasks is not None):
        return "given"
    return "pattern" if drafter == NONE else "llm"


class GoalResult(NamedTuple):
    """The verdict on a goal, and its reason.

    If the plan has ended already, the commands in `beside` write that into the goal's record. `problem` is the internal
    error that ended the plan.
    """

    verdict: GoalVerdict
    reason: str = ""
    beside: Sequence[tuple[Any, ...]] = ()
    problem: Problem | None = None

    @property
    def planned(self) -> bool:
        """Whether the plan has steps for controllers, now or after a person has answered its questions."""
        return self.verdict in (GoalVerdict.PLANNED, GoalVerdict.NEEDS_INPUT)
