"""A step that an operator skips, whatever it waits for; what depends on it goes on as if it were done."""

from __future__ import annotations

import pytest

from schemas.base import RiskLevel
from tests.support.commands import order
from tests.support.plans import PYTEST, Running, a_failure, a_report, a_step


def finished(plan: Running) -> str:
    """Answer every attempt until nothing is in flight."""
    for number in range(30):
        plan.rest()
        plan.report(*[a_report(step, diff_hash=str(number)) for step in plan.active])
    return plan.state


def refusal(plan: Running, step: str) -> str:
    assert order(plan, "skip", step, order_id=f"o-{len(plan.changes)}") == "refused"
    (told,) = [data for kind, data in plan.changes[-1].events if ".command." in kind]
    return told.decode()


@pytest.mark.parametrize("far", range(12))
def test_a_step_that_waits_for_a_slot_is_skipped_however_far_back_it_waits(far: int) -> None:
    plan = Running(*[a_step(f"s-{number:02}") for number in range(13)], max_parallel=1)

    assert order(plan, "skip", f"s-{far + 1:02}") == "obeyed"

    assert plan.states[f"s-{far + 1:02}"] == "SKIPPED"
    assert f"s-{far + 1:02}" not in plan.store.hash(plan.keys.ready)
    assert finished(plan) == "COMPLETED"


def test_a_step_that_waits_for_others_is_skipped_in_its_turn() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("c", "a", "b"), a_step("d", "c"))
    assert order(plan, "skip", "c") == "obeyed"
    plan.report(a_report("a"))
    assert plan.states == {"a": "DONE", "b": "ACTIVE", "c": "BLOCKED", "d": "BLOCKED"}

    plan.report(a_report("b"))

    assert (plan.states["c"], list(plan.active)) == ("SKIPPED", ["d"])
    assert finished(plan) == "COMPLETED"


def test_what_is_skipped_in_its_turn_is_not_satisfied_where_what_it_relies_on_failed() -> None:
    plan = Running(a_step("a", retries=0), a_step("b", "a"), a_step("c", "b"))
    order(plan, "skip", "b")

    plan.report(a_failure("a"))

    assert plan.states == {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED"}
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "cannot_revise")


def test_a_step_in_a_backoff_is_skipped_and_does_not_come_back() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    plan.report(a_failure("a", category="FLAKY_TEST"))
    assert "a" in plan.record.backoffs

    assert order(plan, "skip", "a") == "obeyed"

    assert (plan.states["a"], plan.record.backoffs, list(plan.active)) == ("FAILED", {}, ["b"])
    assert finished(plan) == "COMPLETED"


def test_a_step_that_waits_for_a_slot_to_be_tried_again_is_skipped() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    order(plan, "pause", order_id="o-0")
    plan.report(a_failure("a"))
    assert (plan.states["a"], plan.active) == ("ACTIVE", {})

    assert order(plan, "skip", "a") == "obeyed"
    order(plan, "resume", order_id="o-2")

    assert (plan.states["a"], list(plan.active)) == ("FAILED", ["b"])
    assert finished(plan) == "COMPLETED"


def test_a_step_that_waits_for_its_first_approval_is_skipped() -> None:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), a_step("b", "a"), approvals=("HIGH",))
    assert list(plan.record.waits) == ["a"]

    assert order(plan, "skip", "a") == "obeyed"

    assert (plan.states["a"], plan.record.waits) == ("SKIPPED", {})
    assert finished(plan) == "COMPLETED"


def test_a_step_that_waits_for_an_approval_to_be_tried_again_is_skipped() -> None:
    plan = Running(a_step("a", risk=RiskLevel.MED, tools=(PYTEST,)), a_step("b", "a"), approvals=("HIGH",))
    order(plan, "pause", order_id="o-0")
    plan.report(a_failure("a"))
    order(plan, "tighten", "a", {"risk_level": "HIGH"}, order_id="o-1")
    order(plan, "resume", order_id="o-2")
    assert list(plan.record.waits) == ["a"]

    assert order(plan, "skip", "a", order_id="o-3") == "obeyed"

    assert (plan.states["a"], plan.record.waits) == ("FAILED", {})
    assert finished(plan) == "COMPLETED"


def prepared() -> Running:
    """A step that waits for its syntax check, which is in flight."""
    plan = Running(a_step("a", files=["src/a.py"], tools=(PYTEST,)), a_step("b", "a"))
    plan.report(a_failure("a", category="COMPILATION_ERROR"))
    assert list(plan.active) == ["a-syntax-check"]
    return plan


def test_a_step_whose_preparation_is_in_flight_is_not_skipped_and_the_refusal_says_what_to_do() -> None:
    told = refusal(prepared(), "a")

    assert "an attempt of a-syntax-check is in flight: pause the plan, and skip the step when it has ended" in told


def test_a_step_is_skipped_together_with_the_preparation_that_waits() -> None:
    plan = prepared()
    plan.report(a_failure("a-syntax-check", category="FLAKY_TEST"))
    assert "a-syntax-check" in plan.record.backoffs

    assert order(plan, "skip", "a") == "obeyed"

    assert {plan.states[step] for step in ("a", "a-syntax-check")} == {"FAILED"}
    assert finished(plan) == "COMPLETED"


def test_a_preparation_that_is_skipped_lets_its_step_be_tried_again() -> None:
    plan = prepared()
    plan.report(a_failure("a-syntax-check", category="FLAKY_TEST"))

    order(plan, "skip", "a-syntax-check")

    assert plan.active["a"].attempt == 2
    assert finished(plan) == "COMPLETED"


def test_a_step_in_flight_is_not_skipped_and_the_refusal_says_what_to_do() -> None:
    plan = Running(a_step("a"))

    assert "an attempt of a is in flight: pause the plan" in refusal(plan, "a")
    order(plan, "pause", order_id="o-8")
    plan.report(a_failure("a"))

    assert order(plan, "skip", "a", order_id="o-9") == "obeyed"
    order(plan, "resume", order_id="o-10")
    assert plan.state == "COMPLETED"


def test_a_step_that_has_ended_is_not_skipped() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), a_step("c", "b"))
    plan.report(a_report("a"))

    assert "has not ended" in refusal(plan, "a")
    assert "has not ended" in refusal(plan, "nobody")
    assert order(plan, "skip", "c") == "obeyed"
    assert "in its turn" in refusal(plan, "c")
