"""A plan as `planner show --json` tells it (WIRE.md section 4)."""

from __future__ import annotations

from typing import Any

from schemas.base import Outbound, PlanState
from schemas.envelope import FieldError
from schemas.step import StoredStep


class Halt(Outbound):
    """Why a plan ended early: the rule that fired, a sentence, and the values that met its limit."""

    rule: str
    reason: str
    evidence: dict[str, Any]


class Waiting(Outbound):
    """What a plan waits for a person to say, and until when."""

    kind: str
    questions: tuple[str, ...]
    until: str | None = None


class BudgetLine(Outbound):
    """One budget: what it allows, what attempts in flight hold, what is gone."""

    limit: int | None
    reserved: int
    spent: int


class PlanSummary(Outbound):
    """A line of `planner plans --json`."""

    plan_id: str
    goal_id: str
    kind: str
    goal: str
    state: PlanState
    revision: int
    paused: bool
    waiting: Waiting | None
    halt: Halt | None
    budget: dict[str, BudgetLine]
    counts: dict[str, int]
    created_at: str
    ended_at: str | None


class PlanView(PlanSummary):
    """Everything about one plan."""

    steps: tuple[StoredStep, ...]
    document: Any = None


class Rejection(Outbound):
    """Why a goal got no plan; stands as `evidence` of the halt rule `rejected`."""

    errors: tuple[FieldError, ...]
