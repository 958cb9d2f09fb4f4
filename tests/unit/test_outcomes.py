"""Outcomes folded into a plan: retries, what follows from an end, and how a plan ends."""

from __future__ import annotations

import pytest

from schemas.base import FailureCategory, RiskLevel
from schemas.step import PlannedStep
from tests.support.plans import PYTEST, Running, a_failure, a_report, a_step, clocks, some_steps

UNDERSTOOD = [category.value for category in FailureCategory if category not in ("UNKNOWN", "LEASE_EXPIRED")]


def attempts_until_failed(step: PlannedStep, *categories: str) -> int:
    """How often a step goes out whose attempts fail with these categories, the last of them again and again."""
    plan = Running(step, a_step("z"), failing_outcomes=100)
    number = 0
    while plan.states["a"] == "ACTIVE":
        if preparations := [step for step in plan.active if step.startswith("a-")]:
            plan.report(*map(a_report, preparations))
            continue
        category = categories[min(number, len(categories) - 1)]
        number += 1
        plan.report(a_failure("a", category=category, diff_hash=str(number)))
        plan.rest()
    return number


@pytest.mark.parametrize(
    ("risk", "retries", "attempts"),
    [
        (RiskLevel.LOW, 0, 1),
        (RiskLevel.LOW, 1, 2),
        (RiskLevel.LOW, 2, 3),
        (RiskLevel.LOW, 3, 4),
        (RiskLevel.MED, 0, 1),
        (RiskLevel.MED, 1, 2),
        (RiskLevel.MED, 2, 3),
        (RiskLevel.MED, 3, 3),
        (RiskLevel.HIGH, 0, 1),
        (RiskLevel.HIGH, 1, 2),
        (RiskLevel.HIGH, 2, 2),
        (RiskLevel.HIGH, 3, 2),
    ],
)
def test_a_step_is_tried_again_as_often_as_its_limit_and_its_risk_allow(
    risk: RiskLevel, retries: int, attempts: int
) -> None:
    assert attempts_until_failed(a_step("a", risk=risk, retries=retries), "TEST_REGRESSION") == attempts


@pytest.mark.parametrize("category", ["TEST_REGRESSION", "TEST_TIMEOUT", "FLAKY_TEST", "TYPE_ERROR", "IMPORT_ERROR"])
def test_a_failure_that_is_understood_uses_all_retries(category: str) -> None:
    assert attempts_until_failed(a_step("a", retries=3), category) == 4


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (3, 2)])
def test_a_failure_that_nobody_understands_is_retried_once(retries: int, attempts: int) -> None:
    assert attempts_until_failed(a_step("a", retries=retries), "UNKNOWN") == attempts


def test_an_unknown_failure_behind_others_is_retried_once_as_well() -> None:
    assert attempts_until_failed(a_step("a", retries=3), "TYPE_ERROR", "UNKNOWN", "UNKNOWN") == 3
    assert attempts_until_failed(a_step("a", retries=1), "TYPE_ERROR", "UNKNOWN") == 2


@pytest.mark.parametrize("category", UNDERSTOOD)
def test_every_category_ends_a_step_without_retries(category: str) -> None:
    plan = Running(a_step("a", retries=0), a_step("z"))

    plan.report(a_failure("a", category=category))

    assert plan.states["a"] in ("FAILED", "HALTED")


def test_a_retried_step_stays_active_and_keeps_what_went_wrong() -> None:
    plan = Running(a_step("a"))

    plan.report(a_failure("a", category="UNKNOWN"))

    status = plan.steps["a"]
    assert (status.state, status.attempt, status.failures) == ("ACTIVE", 2, 1)
    assert (status.previous or {})["category"] == "UNKNOWN"
    assert plan.log[-1]["moves"][0] == ["a", "ACTIVE", "ACTIVE"]


def test_a_plan_is_completed_when_every_step_is_done() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))

    plan.report(a_report("a"))
    plan.report(a_report("b"))

    assert (plan.state, plan.states) == ("COMPLETED", {"a": "DONE", "b": "DONE"})
    assert plan.record.times["ended"] == plan.store.now
    assert clocks(plan.store) == {}


def test_a_plan_with_a_failed_step_goes_on_with_what_does_not_need_it() -> None:
    plan = Running(a_step("a", retries=0), a_step("b", "a"), a_step("c"), a_step("d", "c"))

    plan.report(a_failure("a"))
    plan.report(a_report("c"))

    assert plan.state == "EXECUTING"
    assert plan.states == {"a": "FAILED", "b": "SKIPPED", "c": "DONE", "d": "ACTIVE"}


def test_a_plan_that_cannot_complete_any_more_halts_by_way_of_revising() -> None:
    plan = Running(a_step("a", retries=0), a_step("b", "a"), a_step("c"))

    plan.report(a_failure("a"))
    plan.report(a_report("c"))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "cannot_revise")
    assert plan.log[-1]["moves"][-2:] == [["", "EXECUTING", "REVISING"], ["", "REVISING", "HALTED"]]
    assert plan.halt["evidence"]["counts"]["SKIPPED"] == 1


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ({"failing_outcomes": 1}, "failing_outcomes"),
        ({"tokens": 1000}, "tokens"),
        ({"patch_cycles": 1}, "patch_cycles"),
        ({"tool_calls": 3}, "tool_calls"),
    ],
)
def test_a_plan_out_of_budget_with_steps_left_halts(limits: dict[str, int], word: str) -> None:
    plan = Running(a_step("a"), a_step("b", "a"), **limits)
    used = {"tokens_used": 1000, "patch_cycles": 1, "tool_calls": 3}

    plan.report(a_failure("a", metrics=used))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "budget")
    assert word in plan.halt["reason"]
    assert plan.active == {}


def test_a_plan_out_of_budget_waits_for_what_is_in_flight() -> None:
    plan = Running(*some_steps(3), tokens=2000, max_parallel=3)

    plan.report(a_report("s-0", metrics={"tokens_used": 1500}))
    waiting = plan.state
    plan.report(a_report("s-1", metrics={"tokens_used": 500}))

    assert waiting == "EXECUTING"
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "budget")


def test_tokens_that_were_held_and_not_used_start_the_next_step() -> None:
    plan = Running(*some_steps(2), tokens=1000)
    started = list(plan.active)

    plan.report(a_report("s-0", metrics={"tokens_used": 1}))

    assert started == ["s-0"]
    assert list(plan.active) == ["s-1"]


def test_a_last_success_completes_a_plan_though_it_used_the_budget_up() -> None:
    plan = Running(a_step("a"), tokens=1000)

    plan.report(a_report("a", metrics={"tokens_used": 99_999}))

    assert plan.state == "COMPLETED"


def test_a_success_with_failing_tests_is_a_regression() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)))

    plan.report(a_report("a", tests_passed=False))

    assert (plan.states["a"], plan.steps["a"].failures) == ("ACTIVE", 1)
    assert (plan.steps["a"].previous or {})["category"] == "TEST_REGRESSION"


def test_a_file_that_was_not_allowed_is_a_violation() -> None:
    plan = Running(a_step("a", retries=0), a_step("b"))

    plan.report(a_report("a", touched_files=["src/b.py"]))

    assert plan.states["a"] in ("FAILED", "HALTED")
    assert (plan.steps["a"].previous or {})["category"] == "ALLOWLIST_VIOLATION"


def test_outcomes_of_one_batch_are_folded_in_their_order() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("c", "a", "b"))

    verdicts = plan.report(
        a_failure("a", 1), a_report("b", 1), a_report("a", 1), a_report("b", 2, diff_hash="x"), a_report("c", 1)
    )

    assert verdicts == ["applied", "applied", "late", "refused", "refused"]
    assert plan.states == {"a": "ACTIVE", "b": "DONE", "c": "BLOCKED"}


def test_a_success_makes_the_row_of_failures_begin_anew() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("c"))

    plan.report(a_failure("a"), a_failure("b"))
    in_a_row = plan.record.counters.consecutive
    plan.report(a_report("c"))

    assert (in_a_row, plan.record.counters.consecutive) == (2, 0)


def test_every_applied_outcome_stands_in_the_log_as_it_came() -> None:
    plan = Running(a_step("a"), a_step("b"))
    lease = plan.active["a"].lease

    plan.report(a_report("a", 1, lease, diff_hash="x"), a_report("b", 5))

    said = {"step_id": "a", "success": True, "diff_hash": "x"}
    assert plan.log[-1]["in"] == [["outcome", 1, lease, said]]
    assert plan.log[-1]["version"] == plan.record.version


def test_counts_follow_the_states() -> None:
    plan = Running(a_step("a", retries=0), a_step("b", "a"), a_step("c"))

    plan.report(a_failure("a"))

    assert {state: count for state, count in plan.record.counts.items() if count} == {
        "FAILED": 1,
        "SKIPPED": 1,
        "ACTIVE": 1,
    }
