"""What a plan that ended adds to the sums, and what its attempts cost."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from schemas.stored import PlanHead, PlanRecord
from tasks.plan.end_sum import book_cost, cost_of, end_sum

SPENT = {"tokens": 700, "patch_cycles": 2, "tool_calls": 9, "failing_outcomes": 1}


def a_record(state: str, halt: dict[str, Any] | None = None, spent: Any = MappingProxyType(SPENT)) -> PlanRecord:
    head = PlanHead("g-1", "task", "acme", "acme/shop", "seed", {}, {})
    counts = {"DONE": 3, "FAILED": 1}
    return PlanRecord(7, state, head, {}, dict(spent), counts, {}, 0, halt=halt)


@pytest.mark.parametrize(
    ("state", "halt", "end"),
    [
        ("COMPLETED", None, "completed"),
        ("HALTED", {"rule": "budget", "reason": "the budget of tokens is used up"}, "halted:budget"),
        ("HALTED", {"rule": "manual", "reason": "halt by ada: enough"}, "halted:manual"),
        ("HALTED", {"rule": "manual", "reason": "cancel by ada: enough"}, "cancelled"),
        ("HALTED", {"rule": "manual", "reason": "cancel of all by ada: enough"}, "cancelled"),
        ("REJECTED", {"rule": "rejected", "reason": "unsafe"}, "rejected"),
        ("REJECTED", {"rule": "manual", "reason": "cancel by ada: enough"}, "rejected"),
    ],
)
def test_a_plan_counts_by_how_it_ended(state: str, halt: dict[str, Any] | None, end: str) -> None:
    assert end_sum(a_record(state, halt)) == ("acme", "acme/shop", f"{end}=1 tokens=700 steps=3 failures=1")


def test_what_a_plan_did_not_use_is_left_out() -> None:
    plan = a_record("COMPLETED", spent=dict.fromkeys(SPENT, 0))
    plan.counts.clear()

    assert end_sum(plan).added == "completed=1"


def test_costs_add_up_in_millionths_of_a_dollar() -> None:
    plan = a_record("COMPLETED")
    assert cost_of(plan) is None

    for usd in (0.1, 0.2, None, 0.0, -5.0):
        book_cost(plan, usd)

    assert plan.spending.cost == 300_000
    assert cost_of(plan) == 0.3
    assert "cost=300000" in end_sum(plan).added.split()


def test_an_attempt_that_claims_to_have_cost_a_fortune_counts_up_to_a_bound() -> None:
    plan = a_record("COMPLETED")

    book_cost(plan, 1e9)

    assert cost_of(plan) == 10_000.0
