"""The step that asks a controller with an agent for the tasks of a campaign (the drafter `queue`)."""

from __future__ import annotations

from typing import Any

from schemas.base import MODE_OF_TYPE, StepType
from schemas.campaign_plan import TASKS_SCHEMA
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep
from tasks.rules.risk import estimate
from tasks.rules.validation import MAX_RETRIES
from tasks.strategies.campaign.state import State
from tasks.text.fields import MAX_INTENT, filled

NONE, QUEUE = "none", "queue"  # drafters that a strategy knows by name; all others are asked by the worker
DRAFT = "draft"  # the step, and what the campaign waits for as long as it runs; what it is called anew ends like -r2

_ASKED = "Answer in `output` with what the prompt of this step's input asks for, by its schema. Change nothing."


def draft_step(goal: Goal, attempts: int, step_id: str = DRAFT) -> PlannedStep:
    """Make the step in which a controller's agent answers the prompt that it finds in its input."""
    mode = MODE_OF_TYPE[StepType.DRAFT]
    return PlannedStep(
        step_id=step_id,
        title="Draft the tasks" if step_id == DRAFT else "Draft the tasks anew",
        intent=filled("Answer the prompt of this step's input with the tasks of: {goal}", goal.goal, MAX_INTENT),
        controller_task_spec=ControllerTaskSpec(type=StepType.DRAFT),
        mode=mode,
        success_criteria="The tasks are those of a plan that the planner accepts.",
        guidance=_ASKED,
        retry_limit=min(attempts - 1, MAX_RETRIES),
        queue=goal.queue,
        estimate=estimate(mode),
    )


def again(replans: int) -> str:
    """Write how the steps end that are made when a campaign is planned anew for the `replans`-th time."""
    return f"-r{replans + 1}"


def given_to(state: State, step_id: str) -> dict[str, Any]:
    """Give the prompt to the step that drafts."""
    return {"mode": "plan" if step_id == DRAFT else "replan", "prompt": state.prompt, "schema": TASKS_SCHEMA}
