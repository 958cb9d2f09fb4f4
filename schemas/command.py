"""Commands of operators on `planner:{p}:commands` and `planner:commands`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from schemas.base import GoalId, Inbound, Line, PlanId, StepId, Word
from schemas.text_kinds import TextKind


class CommandName(StrEnum):
    """The ten commands; an allowlist can only be tightened, a budget only topped up."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    HALT = "halt"
    APPROVE = "approve"
    REJECT = "reject"
    ANSWER = "answer"
    SKIP = "skip"
    TIGHTEN = "tighten"
    TOP_UP = "top_up"


class Scope(StrEnum):
    """The reach of a command."""

    STEP = "step"
    PLAN = "plan"
    REPOSITORY = "repository"
    TENANT = "tenant"
    QUEUE = "queue"
    ALL = "all"


class Command(Inbound):
    """One command; idempotent by `command_id`."""

    command_id: GoalId
    command: CommandName
    scope: Scope
    plan_id: PlanId | None = None
    target: Word | None = None
    step_id: StepId | None = None
    actor: Word
    reason: Line
    until: datetime | None = None
    value: Annotated[Any, TextKind.LOG] = None
    question: Word | None = None  # the kind of the question that is answered; no other one is then
