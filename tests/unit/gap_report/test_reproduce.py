"""A gap begins with what fails, run at the commit that its plan begins with."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.step import PlannedStep
from tasks.features.baseline.excuses import excuses_of
from tasks.rules import budget
from tests.support.kinds.gap_report import a_gap, a_goal, drafted

TEST = "tests/test_cart.py::test_sum"
FILES = ["src/cart.py", "tests/test_cart.py"]
FAILED = f"FAILED {TEST} - assert 3 == 2"


def steps_of(evidence: str = FAILED, tool: str = "pytest", **context: Any) -> tuple[PlannedStep, ...]:
    """Plan an iteration for what a tool found."""
    gap = a_gap(f"Quality check failed: {tool}", "quality", evidence=evidence)
    known = {"base_sha": "9f1c2d4", "failing_tests": ["tests/test_other.py::test_x"], **context}
    return drafted(a_goal(gap, allowed=FILES, files=FILES, context=known)).steps


def argvs_of(step: PlannedStep) -> list[str]:
    return [tool.argv[-1] for tool in step.verify_tools if tool.tool not in step.quick_checks]


def test_it_begins_with_the_failing_tests_that_it_is_about() -> None:
    first, patch, *_ = steps_of()

    assert first.step_id == "reproduce"
    assert argvs_of(first) == [TEST] * 3
    assert patch.depends_on == ("reproduce",)


def test_it_begins_with_those_that_the_goal_names_in_its_files() -> None:
    named = "tests/test_cart.py::test_sum[twice]"

    first, *_ = steps_of("tests/test_cart.py:3: assert 3 == 2", failing_tests=[named, "tests/test_other.py::test_x"])

    assert argvs_of(first) == [named] * 3


def test_where_no_test_is_named_it_begins_with_their_files() -> None:
    first, *_ = steps_of("tests/test_cart.py:3: assert 3 == 2")

    assert argvs_of(first) == ["tests/test_cart.py"] * 3


def test_what_a_linter_found_begins_with_the_checks_that_nobody_asked_for() -> None:
    first, *_ = steps_of("src/cart.py:1:8: F401 `os` imported but unused", "ruff")

    assert argvs_of(first) == []
    assert first.quick_checks == ("pyright",)


def test_a_gap_that_says_no_commit_begins_with_its_patches() -> None:
    assert [step.step_id for step in steps_of(base_sha=None)] == ["action-1", "verify"]


@pytest.mark.parametrize(
    ("evidence", "failing"),
    [
        (FAILED, [TEST]),
        (f"{FAILED}\n1 failed, 9 passed in 0.1s", [TEST]),
        (f"{FAILED}\n2 failed, 9 passed in 0.1s", []),
        (f"{FAILED}\n1 of 40 findings", []),
        ("tests/test_cart.py:3: assert 3 == 2", []),
    ],
)
def test_all_tests_that_it_names_are_what_the_plan_has_to_mend_and_others_may_be_excused(
    evidence: str, failing: list[str]
) -> None:
    goal = a_goal(a_gap("Quality check failed: pytest", "quality", evidence=evidence), allowed=FILES, files=FILES)
    goal = goal.model_copy(update={"context": goal.context.model_copy(update={"base_sha": "9f1c2d4"})})

    draft = drafted(goal)

    assert draft.goal is not None
    assert [*draft.goal.context.failing_tests] == failing
    assert excuses_of(draft.goal, draft.document) == (budget.EXCUSE_ALL if failing else budget.EXCUSE_CHECKS)
