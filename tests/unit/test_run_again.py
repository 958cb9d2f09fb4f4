"""A verification whose failing tests may be flaky runs once more on the same tree, before an agent is paid."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.step import PlannedStep
from tasks.memory.flaky_tests import counters_of
from tests.support.plans import PARTITION, PYTEST, Running, a_check, a_report, a_step

RED = "tests/test_cart.py::test_clock"
SHA = "9f1c2d4"


def a_plan(*steps: PlannedStep, **fields: Any) -> Running:
    """Play a plan to its check `t`, whose patch has landed."""
    plan = Running(*(steps or (a_step("a"), a_check("t", "a"))), **fields)
    plan.report(a_report("a"))
    return plan


def fail(plan: Running, *tests: str, step: str = "t", **said: Any) -> None:
    live = plan.active[step]
    evidence = {"category": "TEST_REGRESSION", "top_failing_tests": tests, "stack_trace_head": "assert 1 == 2"}
    red = {"tool": "pytest", "exit_code": 1}
    body = {"failing_tests": tests, "failing_tests_complete": True, "touched_files": [], "verify": [red], **said}
    plan.report(a_report(step, live.attempt, live.lease, success=False, failure_evidence=evidence, **body))
    plan.rest()


def test_tests_that_pass_when_run_again_need_no_agent_and_count_for_nothing() -> None:
    plan = a_plan(consecutive_failures=1)

    fail(plan, RED)
    again = ([*plan.active], plan.active["t"].attempt, plan.record.spent["failing_outcomes"])
    plan.report(a_report("t", 2, touched_files=[]))

    assert again == (["t"], 2, 0)
    assert plan.state == "COMPLETED"


def land_while_red(plan: Running, step: str | None) -> None:
    """Fail the check `t`; the patch `step` lands before it does."""
    plan.store.wait(1000)
    if step:
        plan.report(a_report(step, touched_files=[f"src/{step}.py"]))
    plan.store.wait(1000)
    fail(plan, RED)
    plan.store.wait(1000)


def end_baseline(plan: Running) -> None:
    green = [{"tool": "pytest", "exit_code": 0}]
    body: dict[str, Any] = {"verified_at": SHA, "verify": green, "failing_tests": [], "failing_tests_complete": True}
    plan.report(a_report("t-baseline", **body))


@pytest.mark.parametrize(("lands", "known"), [(False, 1), (True, 0)])
@pytest.mark.parametrize("base_sha", [None, SHA])
def test_tests_are_flaky_only_if_nothing_landed_during_the_red_attempt(
    lands: bool, known: int, base_sha: str | None
) -> None:
    plan = a_plan(a_step("a"), a_step("b"), a_check("t", "a"), repo="acme/shop", base_sha=base_sha)
    land_while_red(plan, "b" if lands else None)
    if base_sha:
        end_baseline(plan)

    plan.report(a_report("t", 2, touched_files=[]))

    assert len(plan.store.hash(PARTITION.recall(counters_of("default", "acme/shop")))) == known


def test_tests_are_not_flaky_if_a_change_landed_during_the_baseline() -> None:
    plan = a_plan(a_step("a"), a_step("b"), a_check("t", "a"), repo="acme/shop", base_sha=SHA)
    land_while_red(plan, None)
    plan.report(a_report("b", touched_files=["src/b.py"]))
    end_baseline(plan)

    plan.report(a_report("t", 2, touched_files=[]))

    assert not plan.store.hash(PARTITION.recall(counters_of("default", "acme/shop")))


def test_tests_that_fail_again_are_mended() -> None:
    plan = a_plan(identical_failures=2)

    fail(plan, RED)
    fail(plan, RED)

    assert ([*plan.active], plan.record.spent["failing_outcomes"]) == (["t-mend"], 1)
    plan.report(a_report("t-mend", touched_files=["src/a.py"]))
    fail(plan, RED)
    assert plan.record.spent["failing_outcomes"] == 2  # once a step


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (["tests/test_cart.py"], {}),  # the goal's own
        ([], {"failing_tests_complete": False}),
        ([], {"failing_tests": []}),
        ([], {"verify": [{"tool": "pytest", "exit_code": 2}]}),
    ],
)
def test_other_failures_are_mended_at_once(failing: list[str], said: dict[str, Any]) -> None:
    plan = a_plan(failing=failing)

    fail(plan, RED, **said)

    assert [*plan.active] == ["t-mend"]


@pytest.mark.parametrize("sources", [1, 7])
def test_tests_that_a_patch_may_have_changed_are_mended_at_once(sources: int) -> None:
    files = [*(f"src/{number}.py" for number in range(sources)), "tests/test_cart.py"]
    plan = a_plan(a_step("a", files=files, risk=RiskLevel.MED, tools=(PYTEST,)), a_check("t", "a"))

    fail(plan, RED)

    assert [*plan.active] == ["t-mend"]


def test_tests_that_were_red_before_are_known_first() -> None:
    plan = a_plan(base_sha=SHA)

    fail(plan, RED)
    assert [*plan.active] == ["t-baseline"]
    end_baseline(plan)

    assert ([*plan.active], plan.record.spent["failing_outcomes"]) == (["t"], 0)
    plan.report(a_report("t", 2, touched_files=[]))
    assert plan.state == "COMPLETED"
