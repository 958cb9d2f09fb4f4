"""What follows from a receipt of a tool that runs below the root: nothing unless it tells the folder."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.step import VerifyTool
from tests.support.halts import hand_back
from tests.support.plans import PYTEST, Running, a_report, a_step

THERE = VerifyTool(tool="pytest", argv=("pytest",), timeout_s=300, cwd="backend")
BESIDE = THERE.model_copy(update={"cwd": "worker"})
RED: dict[str, Any] = {"success": False, "failure_evidence": {"category": "TEST_REGRESSION"}}


def receipt(code: int = 0, cwd: str | None = None) -> dict[str, Any]:
    return {"tool": "pytest", "exit_code": code} | ({"cwd": cwd} if cwd else {})


def report(plan: Running, controller: str, *receipts: dict[str, Any], success: bool = True, **said: Any) -> None:
    """Have a controller claim the step a, and report these receipts."""
    beside = {} if success else RED
    hand_back(plan, "a", controller, **{"released": None, **beside, "success": success, "verify": receipts, **said})


def test_a_success_that_tells_its_folder_is_one() -> None:
    plan = Running(a_step("a", tools=(THERE,)))

    report(plan, "ctl-1", receipt(cwd="backend"))

    assert plan.states["a"] == "DONE"


@pytest.mark.parametrize("success", [True, False])
def test_a_receipt_without_its_folder_is_handed_back_green_or_red(success: bool) -> None:
    plan = Running(a_step("a", tools=(THERE,), retries=0), consecutive_failures=1, identical_failures=1)

    report(plan, "ctl-1", receipt(0 if success else 4), success=success)

    assert (plan.state, plan.states["a"]) == ("EXECUTING", "ACTIVE")
    assert plan.events[-1] == "dev.planner.step.released.v1"
    assert plan.steps["a"].failures == 0


@pytest.mark.parametrize("success", [True, False])
def test_three_controllers_that_tell_no_folder_halt_the_plan_with_the_reason(success: bool) -> None:
    plan = Running(a_step("a", tools=(THERE,)))

    for number in range(3):
        report(plan, f"ctl-{number}", receipt(0 if success else 4), success=success)
        plan.rest()

    assert plan.halt
    assert plan.halt["rule"] == ("nobody_can" if success else "cannot_verify")
    assert "no receipt shows that pytest ran in backend (`cwd`)" in plan.halt["reason"]


def test_the_word_that_tests_passed_is_no_proof_below_the_root() -> None:
    plan = Running(a_step("a", tools=(THERE,)))

    hand_back(plan, "a", "ctl-1", success=True, released=None, tests_passed=True)

    assert plan.events[-1] == "dev.planner.step.released.v1"


def test_the_word_that_tests_failed_is_none_either() -> None:
    plan = Running(a_step("a", tools=(THERE,), retries=0))

    hand_back(plan, "a", "ctl-1", **{**RED, "released": None, "tests_passed": False})

    assert plan.states["a"] == "ACTIVE"


def test_a_failure_that_tells_its_folder_counts() -> None:
    plan = Running(a_step("a", tools=(THERE,), retries=0))

    report(plan, "ctl-1", receipt(1, cwd="backend"), success=False)

    assert plan.states["a"] == "FAILED"


def test_a_failure_before_any_tool_ran_counts() -> None:
    plan = Running(a_step("a", tools=(THERE,), retries=0))

    hand_back(plan, "a", "ctl-1", released=None, failure_evidence={"category": "UNKNOWN"})

    assert plan.states["a"] == "FAILED"


def test_one_tool_in_two_folders_needs_a_receipt_of_each() -> None:
    plan = Running(a_step("a", tools=(THERE, BESIDE)))

    report(plan, "ctl-1", receipt(cwd="backend"), receipt(cwd="backend"))
    assert plan.states["a"] == "ACTIVE"
    plan.rest()
    report(plan, "ctl-2", receipt(cwd="backend"), receipt(cwd="worker"))

    assert plan.states["a"] == "DONE"


def test_of_a_tool_that_also_runs_at_the_root_one_receipt_needs_no_folder() -> None:
    plan = Running(a_step("a", tools=(PYTEST, THERE), retries=0))

    report(plan, "ctl-1", receipt(), receipt(4), success=False)
    assert plan.states["a"] == "ACTIVE"
    plan.rest()
    report(plan, "ctl-2", receipt(1), success=False)

    assert plan.states["a"] == "FAILED"


def test_what_breaks_a_rule_halts_wherever_its_tools_ran() -> None:
    plan = Running(a_step("a", tools=(THERE,)))

    report(plan, "ctl-1", receipt(), touched_files=["of/another.py"])

    assert plan.halt
    assert plan.halt["rule"] == "security"


def test_at_the_root_no_receipt_needs_a_folder() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)))

    plan.report(a_report("a", 1, verify=[receipt()]))

    assert plan.states["a"] == "DONE"
