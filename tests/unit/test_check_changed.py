"""What a change turned out to touch is checked by a step of its own, red goes to a mend, and limits are held."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.step import PlannedStep
from tests.support.plans import PYTEST, Running, a_check, a_failure, a_report, a_step

CHECKS = {"ruff": False, "syntax": False}
PASSED: dict[str, Any] = {"tests_passed": True, "verify": [{"tool": "pytest", "exit_code": 0}]}


def an_open_step(step_id: str = "fix", *after: str, **more: Any) -> PlannedStep:
    """A patch of which nobody knows beforehand what it changes."""
    fields = {"allowed_patterns": ("src/**",), "excluded_patterns": ("**/conftest.py",), "checks_after": CHECKS}
    step = a_step(step_id, *after, files=["src/a.py"], risk=RiskLevel.MED, tools=(PYTEST,))
    return step.model_copy(update={**fields, **more})


def a_plan(*steps: PlannedStep, **limits: Any) -> Running:
    return Running(an_open_step(), *(steps or (a_check("all", "fix"),)), **limits)


def spec_of(plan: Running, step_id: str) -> dict[str, Any]:
    found = [spec for spec in plan.waiting("default") if spec["step_id"] == step_id]
    return found[-1]


def test_the_changed_files_are_checked_before_anything_that_waited_for_the_change() -> None:
    plan = a_plan()
    assert "checks_after" not in spec_of(plan, "fix")

    plan.report(
        a_report("fix", touched_files=["src/new/b.py", "src/notes.md"], created_files=["src/new/b.py"], **PASSED)
    )

    assert list(plan.active) == ["check-changed"]
    spec = spec_of(plan, "check-changed")
    assert (spec["mode"], spec["allowed_files"], spec["depends_on"]) == ("test", [], ["fix"])
    assert spec["verify"] == "ruff check -- src/new/b.py && python -m py_compile src/new/b.py"
    assert spec["quick_checks"] == ["ruff-check"]
    plan.report(a_report("check-changed", touched_files=[]))
    assert list(plan.active) == ["all"]
    assert spec_of(plan, "all")["depends_on"] == ["check-changed"]
    plan.report(a_report("all", tests_passed=True, touched_files=[]))
    assert plan.state == "COMPLETED"


def test_a_change_that_no_quick_check_is_for_is_not_checked() -> None:
    plan = a_plan()

    plan.report(a_report("fix", touched_files=["src/notes.md"], **PASSED))

    assert list(plan.active) == ["all"]


def test_a_plan_without_room_for_another_step_goes_on_without_it() -> None:
    plan = a_plan(max_steps=2)

    plan.report(a_report("fix", touched_files=["src/b.py"], **PASSED))

    assert list(plan.active) == ["all"]


def test_the_check_of_a_last_step_ends_the_plan() -> None:
    plan = Running(an_open_step())

    plan.report(a_report("fix", touched_files=["src/b.py"], **PASSED))
    plan.report(a_report("check-changed", touched_files=[]))

    assert plan.state == "COMPLETED"


def test_a_red_check_is_mended_in_what_was_changed_and_then_in_what_the_trace_names() -> None:
    plan = a_plan()
    plan.report(a_report("fix", touched_files=["src/b.py", "src/c.py"], **PASSED))
    trace = "src/c.py:1:1: F401 unused\nsrc/d.py:2:1: F821 undefined\nlib/e.py:1:1: F401 unused"

    plan.report(a_failure("check-changed", category="LINT_ERROR", error_message=trace, touched_files=[]))
    plan.rest()

    (mend,) = plan.active
    assert mend == "check-changed-mend"
    assert spec_of(plan, mend)["allowed_files"] == ["src/c.py", "src/b.py", "src/d.py"]


@pytest.mark.parametrize(
    ("touched", "category"),
    [
        (["src/b.py"], None),
        (["src/conftest.py"], "ALLOWLIST_VIOLATION"),
        (["lib/b.py"], "ALLOWLIST_VIOLATION"),
        ([".github/workflows/ci.yml"], "ALLOWLIST_VIOLATION"),
        (["src/migrations/0002_more.py"], "RISK_EXCEEDED"),
        ([f"src/m{number}.py" for number in range(6)], "TOO_MANY_FILES"),
    ],
)
def test_a_change_is_held_against_the_patterns_the_risk_and_the_number_of_files(
    touched: list[str], category: str | None
) -> None:
    plan = a_plan()

    plan.report(a_report("fix", touched_files=touched, **PASSED))

    if category is None:
        assert plan.states["fix"] == "DONE"
    elif category == "TOO_MANY_FILES":  # it is split
        assert (plan.states["fix"], plan.facts["fix"]["piece_of"]) == ("ACTIVE", "fix")
    else:
        assert plan.states["fix"] != "DONE"
        assert (plan.steps["fix"].previous or {})["category"] == category


def test_a_list_that_was_cut_counts_as_long_as_it_was() -> None:
    plan = a_plan()

    plan.report(a_report("fix", touched_files=["src/b.py"], touched_count=6, **PASSED))

    assert (plan.steps["fix"].previous or {})["category"] == "TOO_MANY_FILES"


def test_what_the_change_removed_is_not_checked() -> None:
    plan = a_plan()

    plan.report(
        a_report("fix", touched_files=["src/old.py", "src/new.py"], deleted_files=["src/old.py"], **PASSED),
    )

    assert spec_of(plan, "check-changed")["verify"] == "ruff check -- src/new.py && python -m py_compile src/new.py"


def test_a_change_that_only_removed_files_is_not_checked() -> None:
    plan = a_plan()

    plan.report(a_report("fix", touched_files=["src/old.py"], deleted_files=["src/old.py"], **PASSED))

    assert list(plan.active) == ["all"]


MISSING = [
    "E902 No such file or directory (os error 2)\n--> src/old.py:1:1\n\nFound 1 error.",
    "src/old.py:1:1: E902 No such file or directory (os error 2)",
    "src/old.py: error: Cannot read file: No such file or directory",
    "mypy: can't read file 'src/old.py': No such file or directory",
    "[Errno 2] No such file or directory: 'src/old.py'",
    "error TS6053: File 'src/old.py' not found.",
    "stat src/old.py: no such file or directory",
    "No files matching the pattern 'src/old.py' were found.",
]


@pytest.mark.parametrize("trace", MISSING)
def test_a_file_that_a_check_does_not_find_is_no_failure_and_the_others_are_checked_again(trace: str) -> None:
    plan = a_plan(consecutive_failures=1)
    plan.report(a_report("fix", touched_files=["src/old.py", "src/new.py"], **PASSED))

    plan.report(a_failure("check-changed", category="LINT_ERROR", error_message=trace, touched_files=[]))

    assert (plan.states["check-changed"], plan.steps["check-changed"].failures) == ("ACTIVE", 0)
    assert spec_of(plan, "check-changed")["verify"] == "ruff check -- src/new.py && python -m py_compile src/new.py"
    plan.report(a_report("check-changed", touched_files=[], tests_passed=True))
    assert list(plan.active) == ["all"]


def test_a_look_at_types_before_the_next_attempt_misses_no_file_that_the_last_one_made() -> None:
    step = a_step("fix", files=["src/a.py", "src/new.py"], risk=RiskLevel.MED, tools=(PYTEST,))
    plan = Running(step)
    plan.report(a_failure("fix", category="TYPE_ERROR", created_files=["src/new.py"]))
    assert list(plan.active) == ["fix-type-check"]

    trace = "src/new.py: error: Cannot read file: No such file or directory"
    plan.report(a_failure("fix-type-check", category="UNKNOWN", error_message=trace, touched_files=[]))

    assert plan.steps["fix-type-check"].failures == 0
    assert "src/new.py" not in spec_of(plan, "fix-type-check")["verify"]


def test_a_check_that_finds_none_of_its_files_is_done() -> None:
    plan = a_plan()
    plan.report(a_report("fix", touched_files=["src/old.py"], **PASSED))

    plan.report(a_failure("check-changed", category="LINT_ERROR", error_message=MISSING[0], touched_files=[]))

    assert plan.states["check-changed"] == "DONE"
    assert list(plan.active) == ["all"]


@pytest.mark.parametrize(
    "trace",
    [
        "src/new.py:3:1: error: No such file or directory: 'data.txt'",
        "src/new.py:1:10: fatal error: old.h: No such file or directory",
        "src/new.py:1: error: Cannot find implementation or library stub for module named 'src.old'",
        "[Errno 2] No such file or directory: 'lib/src/new.py'",
        "[Errno 2] No such file or directory: 'src/new.py.bak'",
    ],
)
def test_a_file_that_asks_for_a_missing_one_is_red_all_the_same(trace: str) -> None:
    plan = a_plan()
    plan.report(a_report("fix", touched_files=["src/new.py"], **PASSED))

    plan.report(a_failure("check-changed", category="LINT_ERROR", error_message=trace, touched_files=[]))

    assert plan.states["check-changed"] != "DONE"
    assert plan.steps["check-changed"].failures == 1
