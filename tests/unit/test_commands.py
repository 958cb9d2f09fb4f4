"""Orders of operators: what each does to a plan, once, and with its reason kept."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.base import RiskLevel
from schemas.command import Command
from tasks import commands
from tests.support.plans import PLAN, Running, a_failure, a_report, a_step
from worker.store.plans import Ask, Write

WEEK_MS = 7 * 86_400_000


def order(plan: Running, name: str, step: str | None = None, value: Any = None, order_id: str = "o-1") -> str:
    """Give an order as the engine would; returns what was told of it: obeyed, refused or known."""
    command = Command.model_validate(
        {
            "command_id": order_id,
            "command": name,
            "scope": "step" if step else "plan",
            "plan_id": PLAN,
            "step_id": step,
            "actor": "ada",
            "reason": "because",
            "value": value,
        }
    )
    change = commands.apply(plan.begin(Ask(PLAN, [step] if step else [*plan.active])), [command])
    assert plan.store.commit([Write(change)]) == ["ok"]
    (told,) = [kind for kind, _ in change.events if ".command." in kind]
    return told.split(".")[3]


def a_risky_plan(**limits: int) -> Running:
    """A LOW step, then a HIGH one that needs an approval."""
    return Running(a_step("a"), a_step("b", "a", risk=RiskLevel.HIGH), approvals=("HIGH",), **limits)


def test_a_step_at_a_risk_that_needs_approval_waits_until_a_person_approves_it() -> None:
    plan = a_risky_plan()
    plan.report(a_report("a"))
    assert plan.active == {}
    assert "dev.planner.step.approval_requested.v1" in plan.events

    assert order(plan, "approve", "b") == "obeyed"

    assert list(plan.active) == ["b"]
    assert plan.steps["b"].approval == "ada: because"
    plan.report(a_report("b"))
    assert plan.state == "COMPLETED"


def test_an_approved_step_is_not_asked_about_again_when_it_is_retried() -> None:
    plan = a_risky_plan()
    plan.report(a_report("a"))
    order(plan, "approve", "b")

    plan.report(a_failure("b"))

    assert plan.active["b"].attempt == 2


def test_a_plan_whose_first_step_needs_approval_stays_ready() -> None:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), approvals=("HIGH",))
    assert (plan.state, plan.active) == ("READY", {})

    order(plan, "approve", "a")

    assert (plan.state, list(plan.active)) == ("EXECUTING", ["a"])


def test_a_rejected_step_halts_its_plan() -> None:
    plan = a_risky_plan()
    plan.report(a_report("a"))

    assert order(plan, "reject", "b") == "obeyed"

    assert plan.state == "HALTED"
    assert plan.halt["rule"] == "approval_rejected"


def test_a_wait_for_a_person_has_a_deadline_and_stops_the_wall_clock() -> None:
    plan = a_risky_plan(wall_clock_s=600)
    plan.report(a_report("a"))

    plan.store.now += WEEK_MS - 1
    plan.sweep()
    assert plan.state == "EXECUTING"

    plan.store.now += 1
    plan.sweep()
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "approval_deadline")


@pytest.mark.parametrize("name", ["approve", "reject", "skip"])
def test_an_order_that_does_not_fit_is_refused_and_changes_nothing(name: str) -> None:
    plan = Running(a_step("a"))

    assert order(plan, name, "a") == "refused"

    assert list(plan.active) == ["a"]


def test_a_paused_plan_starts_nothing_and_its_wall_clock_stands_still() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), wall_clock_s=600)
    order(plan, "pause")
    plan.report(a_report("a"))
    assert plan.active == {}

    plan.store.now += 10_000_000
    plan.sweep()
    assert plan.state == "EXECUTING"

    order(plan, "resume", order_id="o-2")
    assert list(plan.active) == ["b"]
    plan.store.now += 601_000
    plan.sweep()
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "wall_clock")


@pytest.mark.parametrize("name", ["halt", "cancel"])
def test_a_plan_halts_by_order_with_what_is_in_flight(name: str) -> None:
    plan = Running(a_step("a"), a_step("b"))

    assert order(plan, name) == "obeyed"

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "manual")
    assert set(plan.states.values()) == {"HALTED"}
    assert plan.active == {}


def test_a_skipped_step_counts_as_satisfied() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("c", "b"), max_parallel=1)

    assert order(plan, "skip", "b") == "obeyed"
    plan.report(a_report("a"))
    plan.report(a_report("c"))

    assert plan.states == {"a": "DONE", "b": "SKIPPED", "c": "DONE"}
    assert plan.state == "COMPLETED"


def test_a_budget_can_be_topped_up_and_warns_once_when_it_runs_low() -> None:
    plan = Running(a_step("a", tokens=100), a_step("b", "a", tokens=100), tokens=1000)
    plan.report(a_report("a", metrics={"tokens_used": 850}))
    assert plan.events.count("dev.planner.budget.low.v1") == 1

    assert order(plan, "top_up", value={"tokens": 9000}) == "obeyed"

    assert plan.record.limits["tokens"] == 10_000
    plan.report(a_report("b"))
    assert plan.events.count("dev.planner.budget.low.v1") == 1


@pytest.mark.parametrize(
    "value", [None, {}, {"tokens": -1}, {"tokens": 0}, {"tokens": "9"}, {"tokens": True}, {"max_steps": 5}, [1], True]
)
def test_a_budget_is_never_lowered_nor_another_limit_touched(value: Any) -> None:
    plan = Running(a_step("a"))
    before = plan.record.limits

    assert order(plan, "top_up", value=value) == "refused"

    assert plan.record.limits == before


def test_an_order_is_obeyed_once() -> None:
    plan = Running(a_step("a"))
    order(plan, "top_up", value={"tokens": 5000})
    limits = plan.record.limits

    assert order(plan, "top_up", value={"tokens": 5000}) == "known"

    assert plan.record.limits == limits


def test_orders_to_an_ended_plan_are_refused() -> None:
    plan = Running(a_step("a"))
    plan.report(a_report("a"))
    assert plan.state == "COMPLETED"

    assert order(plan, "halt") == "refused"

    assert plan.state == "COMPLETED"


def test_what_was_ordered_stands_in_the_log_with_who_and_why() -> None:
    plan = Running(a_step("a"))

    order(plan, "pause")

    ((kind, said),) = plan.log[-1]["in"]
    assert (kind, said["command"], said["actor"], said["reason"]) == ("command", "pause", "ada", "because")
    assert codec.loads(codec.dumps(said))["command_id"] == "o-1"
