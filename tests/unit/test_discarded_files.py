"""Files that a controller put back: what a red verification needed comes with the next attempt, and never twice."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import Mode
from tests.support.plans import Running, a_report, a_step
from tests.support.wide_steps import GLOBS, a_wide_step

TOLD = "dev.planner.outcome.discarded.v1"


def red(*discarded: str, **said: Any) -> Any:
    about: dict[str, Any] = {"success": False, "tests_passed": False, "discarded_files": discarded}
    return a_report("a", **about | {"failure_evidence": {"category": "TEST_REGRESSION"}} | said)


def failure(plan: Running) -> dict[str, Any]:
    return plan.steps["a"].previous or {}


def test_what_a_red_verification_needed_comes_with_the_next_attempt_and_is_no_failure() -> None:
    plan = Running(a_wide_step(), files=GLOBS, consecutive_failures=1)

    plan.report(red("src/b.py", "notes.txt", touched_files=["src/a.py"]))

    assert plan.facts["a"]["allowed_files"] == ["src/b.py", "src/a.py"]
    assert (plan.states["a"], plan.steps["a"].failures, plan.record.counters.consecutive) == ("ACTIVE", 0, 0)
    assert TOLD in plan.events


def test_a_second_time_the_failure_counts_and_names_the_files() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(red("src/b.py"))
    plan.report(red("src/c.py"))

    assert plan.facts["a"]["allowed_files"] == ["src/b.py", "src/a.py"]
    assert plan.steps["a"].failures == 1
    assert failure(plan)["category"] == "TEST_REGRESSION"
    assert "src/c.py" in failure(plan)["suggestion"]


@pytest.mark.parametrize(
    "path", ["notes.txt", "docs/a.md", "src/.env", "src/login.py", "src/conftest.py", "tests/test_it.py"]
)
def test_what_the_goal_does_not_allow_at_the_level_of_the_step_leaves_the_failure_that_it_is(path: str) -> None:
    plan = Running(a_wide_step(excluded=("tests/test_it.py",)), files=GLOBS)

    plan.report(red(path))

    assert (plan.facts["a"]["allowed_files"], plan.steps["a"].failures) == (["src/a.py"], 1)
    assert failure(plan)["category"] == "TEST_REGRESSION"


def test_a_failing_test_that_the_goal_names_is_not_given_to_a_step_that_leaves_it_out() -> None:
    plan = Running(a_wide_step(excluded=("tests/test_it.py",)), files=[*GLOBS, "tests/test_it.py"])

    plan.report(red("tests/test_it.py"))

    assert (plan.facts["a"]["allowed_files"], plan.steps["a"].failures) == (["src/a.py"], 1)


@pytest.mark.parametrize("said", [{"success": True}, {"tests_passed": False}])
def test_a_discarded_file_excuses_none_that_was_touched(said: dict[str, Any]) -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(red("docs/a.md", touched_files=["docs/a.md"], **said))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "security")


def test_a_success_beside_discarded_files_counts_and_they_are_told() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(a_report("a", touched_files=["src/a.py"], discarded_files=["scratch.txt"]))

    assert plan.state == "COMPLETED"
    assert TOLD in plan.events


def test_an_answer_counts_although_its_agent_changed_files() -> None:
    plan = Running(a_step("a").model_copy(update={"mode": Mode.READ_ONLY}), files=["src/a.py"])

    plan.report(a_report("a", output="it is in src/a.py", discarded_files=["src/a.py"]))

    assert plan.state == "COMPLETED"


def test_an_attempt_that_changed_nothing_else_hears_why_nothing_was_changed() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(a_report("a", touched_files=[], discarded_files=["docs/a.md"]))

    assert failure(plan)["category"] == "NO_CHANGE"
    assert "docs/a.md" in failure(plan)["suggestion"]


def test_a_read_only_step_whose_controller_calls_it_a_violation_is_told_as_one_that_wrote() -> None:
    plan = Running(a_step("a").model_copy(update={"mode": Mode.READ_ONLY}), files=["src/a.py"])
    evidence = {"category": "ALLOWLIST_VIOLATION", "affected_files": ["src/a.py"]}

    plan.report(a_report("a", success=False, failure_evidence=evidence))

    advice = plan.halt["evidence"]["unblock"]
    assert "a is read-only, and the agent wrote (src/a.py)" in advice
    assert "allowed_files" not in advice
