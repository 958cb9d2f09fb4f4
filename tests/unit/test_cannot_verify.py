"""Verifications that could not run: no failure where no change can be why, and a failure where one can."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import FailureCategory
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import MANY_TEXTS
from tasks.toolchain.could_not_run import why_not_run
from tests.support.halts import cannot_verify
from tests.support.plans import PYTEST, Running, a_check, a_failure, a_report, a_step

SHA = "9f1c2d4"
OLD = "tests/test_old.py::test_it"


def told(tool: str, code: int, output: str = "") -> str | None:
    return why_not_run(CATALOGUE.contracts[tool], code, output)


@pytest.mark.parametrize(
    ("tool", "code", "output"),
    [
        ("pip-check", 1, "/usr/bin/python: No module named pip"),
        ("npm-test", 1, 'npm error Missing script: "test"'),
        ("npm-test", 2, "Oops! Something went wrong! :(\n\nESLint: 8.57.1\n\nError: ENOENT: mkdir"),
        ("eslint", 2, "Oops! Something went wrong! :(\n\nESLint: 8.57.1\n\nError: ENOENT: mkdir"),
        ("vitest", 1, "failed to load config from /w/vite.config.ts\nError: ENOENT: mkdir"),
        ("go-test", 1, "main module (example.com/a) does not contain main module\n"),
        ("go-test", 0, "?   \texample.com/a\t[no test files]\n"),
        ("pytest", 4, "ERROR: file or directory not found: tests/test_x.py"),
        ("pytest", 5, "no tests ran in 0.01s"),
        ("cargo-test", 101, "error: could not find `Cargo.toml` in `/w` or any parent directory"),
        ("mocha", 127, "sh: 1: mocha: not found"),
        ("bun", 1, "The following filters did not match any test files:\n src/zz.test.ts"),
        ("deno", 1, "error: Import 'file:///w/d/zz_test.ts' failed, not found."),
        ("deno", 1, "error: JSR package manifest for '@std/assert' failed to load."),
        ("playwright", 1, "Error: browserType.launch: Executable doesn't exist at /root/.cache/ms-playwright/x"),
        ("playwright", 1, "Error: No tests found.\nMake sure that arguments are regular expressions"),
        ("npm-run-test", 126, ""),
    ],
)
def test_a_tool_could_not_run_by_its_exit_code_or_by_what_it_printed(tool: str, code: int, output: str) -> None:
    assert told(tool, code, output)


@pytest.mark.parametrize(
    ("tool", "code", "output"),
    [
        ("pytest", 1, "FAILED tests/test_a.py::test_x - assert 1 == 2"),
        ("npm-test", 3, "3 failing"),
        ("go-test", 0, "?   \texample.com/a\t[no test files]\nok  \texample.com/b\t0.1s\n"),
        ("cargo-test", 101, "test result: FAILED. 1 passed; 1 failed;"),
        ("mocha", 12, "12 failing"),
    ],
)
def test_a_tool_that_ran_is_red_or_green(tool: str, code: int, output: str) -> None:
    assert told(tool, code, output) is None


def test_no_contract_has_more_texts_than_allowed_or_an_empty_one() -> None:
    for contract in CATALOGUE.contracts.values():
        assert len(contract.cannot_run) <= MANY_TEXTS
        assert all(text.strip() for text in contract.cannot_run)


def test_it_is_handed_back_and_counts_for_no_other_rule() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)), consecutive_failures=1, identical_failures=1)

    cannot_verify(plan, "a", "ctl-1")

    assert (plan.state, plan.steps["a"].failures, plan.record.spent["failing_outcomes"]) == ("EXECUTING", 0, 0)
    assert plan.record.releases.of("a") == 0
    assert plan.events[-1] == "dev.planner.step.released.v1"


@pytest.mark.parametrize(
    ("who", "halts"),
    [("a", False), ("aa", True), ("ab", False), ("aba", True), ("abc", True)],
)
def test_the_third_claimant_or_the_same_one_again_halts(who: str, halts: bool) -> None:
    plan = Running(a_step("a", tools=(PYTEST,)))
    for name in who:
        cannot_verify(plan, "a", name)
        plan.rest()

    assert (plan.state == "HALTED") is halts
    assert not halts or plan.halt["rule"] == "cannot_verify"


def test_another_tool_of_the_same_claimant_is_not_the_same_again() -> None:
    checks = tuple(map(CATALOGUE.match, ("pytest", "ruff check src/a.py")))
    plan = Running(a_step("a", tools=checks))
    cannot_verify(plan, "a", "ctl-1")
    plan.rest()

    cannot_verify(plan, "a", "ctl-1", cannot_verify={"tool": "ruff-check", "reason": "x"})

    assert plan.state == "EXECUTING"


def test_an_attempt_that_ended_in_another_way_begins_the_count_anew() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)))
    cannot_verify(plan, "a", "ctl-1")
    plan.rest()
    plan.report(a_failure("a", plan.steps["a"].attempt))
    plan.rest()

    cannot_verify(plan, "a", "ctl-1")

    assert plan.state == "EXECUTING"


def test_the_halt_names_program_folder_command_host_and_what_to_set() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)))
    for _ in range(2):
        cannot_verify(plan, "a", "ctl-1")
        plan.rest()

    evidence = plan.halt["evidence"]
    assert (evidence["program"], evidence["cwd"], evidence["command"]) == ("pytest", ".", "pytest")
    assert evidence["hosts"] == ["ctl-1"]
    assert all(word in evidence["unblock"] for word in ("--test-command", "--workdir", "--setup", "repositories file"))
    assert "No module named pytest" in plan.halt["reason"]


def report(plan: Running, code: int, trace: str, tool: str = "pytest", **said: Any) -> None:
    """Fail a change as a controller does that knows nothing of `cannot_verify`."""
    evidence = {"category": "UNKNOWN", "stack_trace_head": trace}
    body = {"success": False, "failure_evidence": evidence, "verify": [{"tool": tool, "exit_code": code}], **said}
    plan.report(a_report("a", plan.steps["a"].attempt, **body))
    plan.rest()


@pytest.mark.parametrize(
    ("command", "tool", "code", "trace"),
    [
        ("pytest", "pytest", 2, "ERROR collecting tests/test_a.py"),  # the change breaks collection
        ("pytest", "pytest", 4, "ERROR: file or directory not found: tests/test_a.py"),  # it deletes the test
        ("npm test", "npm-test", 1, 'npm error Missing script: "test"'),  # it removes the script
        ("npm test", "npm-test", 127, "sh: 1: jest: not found"),
    ],
)
def test_a_change_after_which_nothing_can_run_fails_and_halts(command: str, tool: str, code: int, trace: str) -> None:
    plan = Running(a_step("a", tools=(CATALOGUE.match(command),)), identical_failures=2)
    for _ in range(2):
        report(plan, code, trace, tool, touched_files=["src/a.py"])

    assert plan.halt["rule"] == "identical_failure"
    assert plan.record.spent["failing_outcomes"] == 2
    assert {entry[2] for entry in plan.record.counters.failed} == {FailureCategory.TEST_REGRESSION}


def test_a_script_of_the_repository_that_is_not_found_is_never_the_hosts_trouble() -> None:
    plan = Running(a_step("a", tools=(CATALOGUE.match("npm test"),)))

    cannot = {"tool": "npm-test", "reason": "jest: not found"}
    cannot_verify(plan, "a", "ctl-1", cannot_verify=cannot, verify=[{"tool": "npm-test", "exit_code": 127}])

    assert plan.record.spent["failing_outcomes"] == 1


def awaiting_base() -> Running:
    plan = Running(a_step("a"), a_check("t", "a"), base_sha=SHA)
    plan.report(a_report("a"))
    receipts = [{"tool": "pytest", "exit_code": 1}]
    red: dict[str, Any] = {"verify": receipts, "failing_tests": [OLD], "failing_tests_complete": True}
    plan.report(a_failure("t", 1, **red))
    return plan


def test_a_baseline_that_could_not_run_is_tried_once_more_elsewhere() -> None:
    plan = awaiting_base()

    plan.report(a_failure("t-baseline", verified_at=SHA, verify=[{"tool": "pytest", "exit_code": 127}]))
    plan.rest()

    assert (plan.active["t-baseline"].attempt, plan.state) == (2, "EXECUTING")


def test_a_baseline_whose_program_is_missing_halts() -> None:
    plan = awaiting_base()
    for _ in range(2):
        attempt = plan.active["t-baseline"].attempt
        plan.report(a_failure("t-baseline", attempt, verified_at=SHA, verify=[{"tool": "pytest", "exit_code": 127}]))
        plan.rest()

    assert plan.halt["rule"] == "cannot_verify"


def test_a_baseline_of_tests_that_are_not_there_yet_halts_nothing_since_they_ran_after_the_change() -> None:
    plan = awaiting_base()
    for _ in range(2):
        attempt = plan.active["t-baseline"].attempt
        receipts = [{"tool": "pytest", "exit_code": 4}]
        plan.report(a_failure("t-baseline", attempt, verified_at=SHA, verify=receipts))
        plan.rest()

    assert plan.states["t-baseline"] == "FAILED"
    assert (list(plan.active), plan.active["t"].attempt) == (["t"], 2)  # its failing test may be flaky


def test_without_the_echo_nothing_is_concluded_of_the_base() -> None:
    plan = awaiting_base()

    plan.report(a_failure("t-baseline", verify=[{"tool": "pytest", "exit_code": 127}]))

    assert plan.states["t-baseline"] == "FAILED"
    assert not plan.record.cannot_verify.at_base


def fail_by(plan: Running, step: str, controller: str, **said: Any) -> None:
    plan.store.claim(plan.plan_id, step, controller)
    live = plan.active[step]
    body = {"success": False, "verify": [{"tool": "pytest", "exit_code": 127}], **said}
    plan.report(a_report(step, live.attempt, live.lease, **body))
    plan.rest()


def test_after_a_change_what_could_not_run_at_the_base_either_is_no_failure_of_it() -> None:
    plan = awaiting_base()
    fail_by(plan, "t-baseline", "ctl-1", verified_at=SHA)
    assert plan.record.cannot_verify.at_base == [["pytest", "."]]
    base: dict[str, Any] = {
        "verified_at": SHA,
        "verify": [{"tool": "pytest", "exit_code": 1}],
        "failing_tests_complete": True,
    }
    plan.report(a_report("t-baseline", plan.active["t-baseline"].attempt, failing_tests=["x.py::y"], **base))
    failed = plan.record.spent["failing_outcomes"]
    plan.report(a_report("t-mend"))

    fail_by(plan, "t", "ctl-1")

    assert plan.record.spent["failing_outcomes"] == failed
    assert plan.active["t"]
