"""An attempt that needs other files is given what its goal allows, and fails where it asks for more."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from schemas.base import RiskLevel
from tests.support.plans import Running, a_failure, a_report, a_step
from tests.support.wide_steps import GLOBS, a_wide_step


def asking(*files: str, reason: str = "it is called there", **said: Any) -> Any:
    return a_report("a", success=False, needs={"files": files, "reason": reason}, **said)


def spec(plan: Running) -> dict[str, Any]:
    return plan.facts["a"]


def test_what_the_goal_allows_comes_with_the_next_attempt_and_is_no_failure() -> None:
    plan = Running(a_wide_step(), files=GLOBS, consecutive_failures=1)

    plan.report(asking("src/b.py", "tests/new.py"))

    assert spec(plan)["allowed_files"] == ["src/b.py", "tests/new.py", "src/a.py"]
    assert "asked for src/b.py, tests/new.py" in spec(plan)["guidance"]
    assert (plan.states["a"], plan.active["a"].attempt) == ("ACTIVE", 2)
    status, record = plan.steps["a"], plan.record
    assert (status.failures, status.repeats, record.counters.consecutive) == (0, 0, 0)
    assert record.spent["failing_outcomes"] == 0
    plan.report(a_report("a", touched_files=["src/b.py", "tests/new.py"]))
    assert plan.state == "COMPLETED"


def test_a_step_of_a_goal_without_globs_is_given_other_files_that_the_goal_names() -> None:
    plan = Running(a_step("a", retries=0), a_step("b", "a"), files=["src/a.py", "src/b.py"])

    plan.report(asking("./src/b.py"))
    plan.report(asking("src/c.py"))

    assert spec(plan)["allowed_files"] == ["src/b.py", "src/a.py"]
    assert "a needs src/c.py (it is called there): planner submit" in plan.halt["evidence"]["unblock"]


SUPPLIED = {"step_id": "a", "title": "a", "intent": "a", "allowed_files": ["src/a.py"]}


def test_no_command_sends_a_plan_that_was_supplied() -> None:
    plan = Running(a_step("a", retries=0), files=["src/a.py"], steps=[SUPPLIED])

    plan.report(asking("src/b.py"))

    told = "a needs src/b.py (it is called there): add them to allowed_files and send the goal again"
    assert told in plan.halt["evidence"]["unblock"]


def test_a_step_is_given_files_twice_and_then_it_fails() -> None:
    plan = Running(a_wide_step(retries=3), files=GLOBS)

    for number in (1, 2, 3):
        plan.report(asking(f"src/{number}.py", failure_evidence={"category": "COMPILATION_ERROR"}))

    assert spec(plan)["allowed_files"] == ["src/2.py", "src/1.py", "src/a.py"]
    assert plan.steps["a"].failures == 1
    assert (plan.steps["a"].previous or {})["category"] == "COMPILATION_ERROR"
    assert "after it was given files 2 times" in (plan.steps["a"].previous or {})["suggestion"]


def test_the_same_need_again_is_a_failure() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(asking("src/b.py"))
    plan.report(asking("./src/b.py"))

    assert (plan.steps["a"].failures, spec(plan)["allowed_files"]) == (1, ["src/b.py", "src/a.py"])
    assert (plan.steps["a"].previous or {})["category"] == "UNKNOWN"


@pytest.mark.parametrize(
    "path",
    ["docs/a.md", ".env", "src/.env", "../a.py", "conftest.py", "src/conftest.py", "src/login.py", "tests/test_it.py"],
)
def test_what_the_goal_does_not_allow_at_the_level_of_the_step_is_a_failure(path: str) -> None:
    plan = Running(a_wide_step(excluded=("tests/test_it.py", "**/.env")), files=GLOBS)

    plan.report(asking("src/b.py", path, failure_evidence={"category": "IMPORT_ERROR"}))

    assert (plan.steps["a"].failures, spec(plan)["allowed_files"]) == (1, ["src/a.py"])
    previous = plan.steps["a"].previous or {}
    assert previous["category"] == "IMPORT_ERROR"
    assert previous["suggestion"].startswith(f"It needs {path}, which the goal does not allow")


def test_a_plan_that_halts_names_the_command_that_would_allow_what_it_needs() -> None:
    plan = Running(
        a_wide_step(retries=0),
        files=GLOBS,
        sentence="Fix 'it'; now",
        context={
            "language": "python",
            "test_command": "pytest -q",
            "repo": "acme/shop",
            "failing_tests": ["tests/test_a.py::test_it", "tests/test_b.py::test_it[x y]"],
        },
    )

    plan.report(asking("docs/a.md", ".git/config"))

    advice = plan.halt["evidence"]["unblock"]
    told, _, command = advice.partition(": planner ")
    assert told.endswith("a needs docs/a.md, .git/config (it is called there)")
    assert shlex.split(command) == [
        *("submit", "--goal", "Fix 'it'; now", "--file", "src/**", "--file", "tests/**", "--file", "docs/a.md"),
        *("--failing-test", "tests/test_a.py::test_it", "--failing-test", "tests/test_b.py::test_it[x y]"),
        *("--language", "python", "--test-command", "pytest -q", "--repo", "acme/shop"),
    ]


def test_what_no_goal_may_allow_has_no_command() -> None:
    plan = Running(a_wide_step(retries=0), files=GLOBS)

    plan.report(asking(".git/config"))

    assert "a needs .git/config (it is called there): no goal may allow them" in plan.halt["evidence"]["unblock"]


def test_a_step_that_is_done_needs_nothing_any_more() -> None:
    plan = Running(a_wide_step(), a_step("b", "a", retries=0), files=[*GLOBS, "src/b.py"])
    plan.report(asking("docs/a.md"))
    plan.report(a_report("a", touched_files=["src/a.py"]))
    plan.report(a_failure("b"))

    assert plan.state == "HALTED"
    assert "docs/a.md" not in plan.halt["evidence"]["unblock"]


def test_an_operator_who_left_only_some_files_is_obeyed() -> None:
    plan = Running(a_wide_step(), files=GLOBS)
    view = plan.store.hash(plan.keys.plan)
    record = plan.record
    record.head.tightened = ["src/a.py"]
    view["head"] = record.head.encode()

    plan.report(asking("src/b.py"))

    assert spec(plan)["allowed_files"] == ["src/a.py"]


def test_a_need_beside_a_touched_file_that_is_not_the_steps_is_a_violation() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(asking("src/b.py", touched_files=["docs/a.md"]))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "security")


def violation(*files: str, **said: Any) -> Any:
    evidence = {"category": "ALLOWLIST_VIOLATION", "affected_files": files}
    return a_report("a", success=False, failure_evidence=evidence, **said)


def test_a_controller_that_knows_no_patterns_is_given_the_files_that_it_calls_a_violation() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(violation("src/b.py", "src/a.py", touched_files=["src/b.py"]))

    assert (plan.state, spec(plan)["allowed_files"]) == ("EXECUTING", ["src/b.py", "src/a.py"])
    assert plan.steps["a"].failures == 0


def test_what_such_a_controller_calls_a_violation_again_is_a_failure_that_halts_nothing_at_once() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    for number in (1, 2, 3):
        plan.report(violation(f"src/{number}.py"))

    assert (plan.state, plan.steps["a"].failures) == ("EXECUTING", 1)
    assert (plan.steps["a"].previous or {})["category"] == "UNKNOWN"


@pytest.mark.parametrize(
    "report",
    [
        violation("src/b.py", patterns=True),
        violation("src/b.py", "docs/a.md"),
        violation("src/b.py", "src/login.py"),
        violation("src/b.py", touched_files=["docs/a.md"]),
        violation(),
        violation(*(f"src/{number}.py" for number in range(21))),
    ],
)
def test_any_other_violation_halts_at_once(report: Any) -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(report)

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "security")


def test_a_violation_of_a_step_without_patterns_halts_at_once() -> None:
    plan = Running(a_step("a"), files=["src/a.py", "src/b.py"])

    plan.report(violation("src/b.py"))

    assert plan.halt["rule"] == "security"


def test_a_step_that_is_retried_keeps_what_it_was_given_and_a_success_asks_for_nothing() -> None:
    plan = Running(a_wide_step(risk=RiskLevel.LOW), files=GLOBS)
    plan.report(asking("src/b.py"))
    plan.report(a_failure("a", category="LINT_ERROR"))

    assert "src/b.py" in spec(plan)["allowed_files"]
    assert "dev.planner.step.given_files.v1" in plan.events
