"""The type of a goal: whole words and structure, then what the context carries."""

from __future__ import annotations

import time
from typing import Any

import pytest

from schemas.goal import Goal
from tasks.strategies.task.goal_type import GoalType, goal_type
from tasks.toolchain.classify import LogSign, read_log


def type_of(text: str, **context: Any) -> GoalType:
    return goal_type(Goal.model_validate({"goal": text, "context": context}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Add prefix support", "feature"),  # the misfires of the first implementation
        ("Debug logging toggle", "feature"),
        ("Fixture cleanup", "refactor"),
        ("Address the style guide", "generic"),
        ("Renew certificate", "generic"),
        ("Make it paddable", "generic"),
        ("Refactor utils", "refactor"),
        ("add auth with login/logout", "feature"),  # the golden goals
        ("refactor utils", "refactor"),
        ("fix failing test", "repair"),
        ("Fix failing test tests/test_auth.py::test_login", "repair"),
        ("Please fix the login", "repair"),
        ("We need to repair the parser", "repair"),
        ("fix(auth): login redirects twice", "repair"),
        ("Debug the login", "repair"),
        ("Login is broken", "repair"),
        ("[BUG] crash on start", "repair"),
        ("Make the tests pass", "repair"),
        ("Investigate and fix the login", "repair"),
        ("Address the failing test", "repair"),
        ("feat: dark mode", "feature"),
        ("Implement a fix button", "feature"),
        ("Add regression tests for the login bug", "feature"),
        ("Build a dashboard", "feature"),
        ("Support for prefixes", "feature"),
        ("Add dependency injection", "feature"),
        ("Clean up the helpers", "refactor"),
        ("Rename the broken flag", "refactor"),
        ("Fix the build", "build"),
        ("Build fails on main", "build"),
        ("Fix compilation of the parser", "build"),
        ("Upgrade Django to 5.1", "dependency"),
        ("chore(deps): bump requests from 2.31 to 2.32", "dependency"),
        ("Update dependencies", "dependency"),
        ("Resolve the dependency conflict", "dependency"),
        ("Investigate slow logins", "observation"),
        ("Find out why it is slow", "observation"),
        ("Update the README", "generic"),
        ("修复登录", "generic"),
        ("!!!", "generic"),
    ],
)
def test_a_goal_is_of_type(text: str, expected: str) -> None:
    assert type_of(text) == expected


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("AssertionError: 200 != 201", "repair"),
        ("FAILED tests/test_a.py::test_x", "repair"),
        ("--- FAIL: TestLogin (0.00s)", "repair"),
        ("error: could not compile `auth` (lib)", "build"),
        ("/usr/bin/ld: undefined reference to `login'", "build"),
        ("src/a.ts(3,1): error TS2304: Cannot find name 'x'.", "build"),
        ("ERROR: ResolutionImpossible: for help visit ...", "dependency"),
        ("npm ERR! code ERESOLVE", "dependency"),
        ("ModuleNotFoundError: No module named 'requests'", "dependency"),
        ("exit status 1", "observation"),
        ("all good, 0 failed", "observation"),
        ("", "repair"),
        ("   ", "repair"),
    ],
)
def test_a_repair_goes_where_its_log_points(log: str, expected: str) -> None:
    assert type_of("Fix the login", failure_log=log) == expected


@pytest.mark.parametrize("hostile", ["\n", " ", "A", "expected ", "assert ", "make: ", "1", "No module named a\n"])
def test_a_hostile_log_of_full_size_is_read_in_linear_time(hostile: str) -> None:
    started = time.process_time()

    read_log(hostile * (256 * 1024 // len(hostile)), ("a.py",))

    assert time.process_time() - started < 5  # quadratic would be minutes


def test_a_missing_module_of_the_repository_itself_is_repaired() -> None:
    log = "ModuleNotFoundError: No module named 'shop'"

    assert read_log(log, ("src/shop/__init__.py",)) is LogSign.REPAIRABLE


def test_a_log_that_says_nothing_does_not_stop_a_repair_that_knows_its_tests() -> None:
    assert type_of("Fix the login", failure_log="exit 1", failing_tests=["tests/test_a.py::t"]) == "repair"
    assert type_of("Fix tests/test_a.py", failure_log="exit 1") == "repair"


def test_a_failure_in_the_context_makes_a_repair_of_a_goal_without_a_verb() -> None:
    assert type_of("Login page", failing_tests=["tests/test_a.py::t"]) == "repair"
    assert type_of("Add a login page", failing_tests=["tests/test_a.py::t"]) == "feature"
