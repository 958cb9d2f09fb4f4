"""The figures of an ended plan for the sums of its hour and its day: how it ended, and how much it used."""

from __future__ import annotations

from typing import NamedTuple

from schemas.base import PlanState as P
from schemas.base import StepState
from schemas.command import CommandName
from schemas.stored import PlanRecord

MICRO = 1_000_000
MOST_USD = 10_000.0  # of one attempt; more is a mistake of its controller
COMPLETED, REJECTED, CANCELLED, HALTED = "completed", "rejected", "cancelled", "halted:"  # halted:<rule>
TOKENS, COST, STEPS, FAILURES = "tokens", "cost", "steps", "failures"
_CANCEL = f"{CommandName.CANCEL.value} "  # prefix of the reason of an end by this command


class EndSum(NamedTuple):
    """Figures of an ended plan, which a commit adds to the sums of its tenant and repository.

    `added` has `<name>=<figure>`, separated by blanks. Each figure is an integer above 0.
    """

    tenant: str
    repo: str | None
    added: str


def end_sum(plan: PlanRecord) -> EndSum:
    """Return the figures of a plan that has ended and has no unsettled attempt."""
    figures = {
        _end_of(plan): 1,
        TOKENS: plan.spent["tokens"],
        COST: plan.spending.cost or 0,
        STEPS: plan.counts.get(StepState.DONE.value, 0),
        FAILURES: plan.spent["failing_outcomes"],
    }
    added = " ".join([f"{name}={figure}" for name, figure in figures.items() if figure > 0])
    return EndSum(plan.head.tenant, plan.head.repo, added)


def book_cost(plan: PlanRecord, cost_usd: float | None) -> None:
    """Add the cost of an attempt to the plan, if its controller reported a positive one."""
    if cost_usd and cost_usd > 0:
        plan.spending.cost = (plan.spending.cost or 0) + round(MICRO * min(cost_usd, MOST_USD))


def cost_of(plan: PlanRecord) -> float | None:
    """Return the cost of a plan so far in US dollars; None if no controller reported one."""
    cost = plan.spending.cost
    return None if cost is None else cost / MICRO


def _end_of(plan: PlanRecord) -> str:
    halt = plan.halt or {}
    if plan.state == P.COMPLETED:
        return COMPLETED
    if plan.state == P.REJECTED:
        return REJECTED
    if halt.get("rule") == "manual" and str(halt.get("reason", "")).startswith(_CANCEL):
        return CANCELLED
    return f"{HALTED}{halt.get('rule', '')}"
