"""The halt rule `flaky`: only results of one verification on the same tree are compared."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import Mode, StepType
from schemas.step import ControllerTaskSpec, PlannedStep
from tests.support.growing import Script, growing
from tests.support.plans import PYTEST, Running, a_failure, a_report, a_step

GREEN: dict[str, Any] = {"tests_passed": True}


def a_test(step_id: str, *after: str) -> PlannedStep:
    """A step that only runs the same verification as all others."""
    spec = ControllerTaskSpec(type=StepType.TEST)
    step = a_step(step_id, *after, files=[], tools=(PYTEST,), retries=3)
    return step.model_copy(update={"mode": Mode.TEST, "controller_task_spec": spec})


def a_patch(step_id: str, *after: str) -> PlannedStep:
    return a_step(step_id, *after, tools=(PYTEST,), retries=3)


def red(plan: Running, step: str, category: str = "FLAKY_TEST", **said: Any) -> None:
    plan.report(a_failure(step, plan.steps[step].attempt, category, **said))
    plan.rest()


def green(plan: Running, step: str, **said: Any) -> None:
    plan.report(a_report(step, plan.steps[step].attempt, **GREEN, **said))


def land(plan: Running, step: str) -> None:
    green(plan, step, touched_files=[f"src/{step}.py"])


def flips(plan: Running) -> int:
    return max((each >> 1 for each in plan.record.streaks.flips.values()), default=0)


def test_ordinary_red_green_work_is_not_flaky() -> None:
    plan = Running(a_patch("a"), a_patch("b", "a"), a_step("z", "b"), flaky_flips=3)

    for step in ("a", "b"):
        red(plan, step, "TEST_REGRESSION", touched_files=[f"src/{step}.py"])
        land(plan, step)

    assert plan.state == "EXECUTING"


def test_results_on_the_same_tree_are_compared() -> None:
    plan = Running(a_test("a"), a_test("b"), a_step("z", "a", "b"), flaky_flips=3)

    red(plan, "a")
    green(plan, "a")
    red(plan, "b")
    before = plan.state
    green(plan, "b")

    assert (before, plan.state, plan.halt["rule"]) == ("EXECUTING", "HALTED", "flaky")


def test_a_failed_patch_that_touched_nothing_is_compared() -> None:
    plan = Running(a_patch("a"), a_test("b"), a_step("z", "a", "b"), flaky_flips=2)

    red(plan, "a", touched_files=[])
    green(plan, "b")
    red(plan, "a", touched_files=[])

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "flaky")


def test_a_change_that_landed_separates() -> None:
    plan = Running(
        *map(a_test, "abc"), a_patch("p"), a_patch("q"), a_step("z", *"abcpq"), max_parallel=9, flaky_flips=2
    )

    plan.store.wait(1000)
    green(plan, "a")
    land(plan, "p")
    red(plan, "b")
    assert flips(plan) == 0  # what was in flight while it landed may have looked at either tree
    red(plan, "b")
    assert flips(plan) == 1  # the patch was green on the tree that it left
    land(plan, "q")
    green(plan, "b")

    assert (plan.state, flips(plan)) == ("EXECUTING", 0)


def test_a_patch_that_was_in_flight_while_another_landed_is_no_result_of_the_tree() -> None:
    plan = Running(a_patch("p"), a_patch("q"), a_test("t", "q"), a_step("z", "p", "t"), max_parallel=9)
    plan.store.wait(1000)

    land(plan, "p")
    land(plan, "q")
    red(plan, "t")

    assert flips(plan) == 0


def test_a_preparation_that_landed_separates_and_is_no_result() -> None:
    plan = Running(a_patch("a"), a_test("t"), a_test("u"), a_step("z", "a", "t", "u"), max_parallel=9, flaky_flips=1)
    red(plan, "t")
    red(plan, "a", "LINT_ERROR", touched_files=["src/a.py"])

    green(plan, "a-auto-fix", touched_files=["src/a.py"])
    green(plan, "u")

    assert (plan.state, flips(plan)) == ("EXECUTING", 0)


def test_an_answer_that_was_refused_is_no_result_of_a_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(refuses=lambda output: None if output else "it is empty")
    plan = growing(monkeypatch, script, a_test("a"), a_test("b"), a_step("z", "a", "b"), flaky_flips=1)

    green(plan, "a")
    green(plan, "a", output="yes")
    green(plan, "b")
    green(plan, "b", output="yes")

    assert (plan.state, flips(plan)) == ("EXECUTING", 0)


def test_a_patch_that_did_nothing_is_no_red_verification() -> None:
    plan = Running(a_test("t"), a_patch("a"), a_step("z", "t", "a"), flaky_flips=1)

    green(plan, "t")
    green(plan, "a", touched_files=[])

    assert plan.state == "EXECUTING"
    assert plan.steps["a"].attempt == 2
