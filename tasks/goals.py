"""What becomes of a goal: a validated plan, a rejection with all its reasons, or nothing to do."""

from __future__ import annotations

from schemas.envelope import FieldError
from schemas.goal import Goal
from tasks.planning.draft import Answer, Draft
from tasks.planning.registry import strategy_of
from tasks.policy.validation import rejected, validate


def plan(goal: Goal) -> Answer:
    """Answer any valid goal, never raising; a Draft that comes out has passed the validator. Pure."""
    strategy = strategy_of(goal.kind)
    if strategy is None:
        message = f"Goals of the kind {goal.kind} cannot be planned yet."
        error = FieldError(pointer="/kind", code="kind_not_available", message=message)
        return rejected("kind_not_available", (error,))
    answer = strategy.draft(goal)
    if isinstance(answer, Draft) and (errors := validate(goal, answer.steps)):
        return rejected("invalid_plan", errors)
    return answer
