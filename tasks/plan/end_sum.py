"""What the end of a plan adds to the sums of its hour and its day: how it ended, and what it used."""

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
_CANCEL = f"{CommandName.CANCEL.value} "  # what the reason of an end by this command begins with


class EndSum(NamedTuple):
    """Figures of a plan that ended, for the sums of its tenant and repository: `<name>=<figure>`, with blanks between.

    Figures are whole and above 0.
    """

    tenant: str
    repo: str | None
    added: str


def end_sum(plan: PlanRecord) -> EndSum:
    """Make the figures of a plan that has ended, once all of its attempts are settled."""
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
    """Count what an attempt cost, if its controller said so; a cost only adds."""
    if cost_usd and cost_usd > 0:
        plan.spending.cost = (plan.spending.cost or 0) + round(MICRO * min(cost_usd, MOST_USD))


def cost_of(plan: PlanRecord) -> float | None:
    """Return what a plan has cost so far in dollars; None where no controller said so."""
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
