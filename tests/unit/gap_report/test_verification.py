"""Which tests judge an iteration where another gap is that some of them fail."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tasks.rules.strategy import End, Expansion, LivePlan
from tasks.strategies import gap_report
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.kinds.gap_report import NOW, a_gap, a_goal, drafted

RUFF = a_gap("Quality check failed: ruff", "quality", evidence="src/a.py:1:1: F401 x")
PYTEST = a_gap("Quality check failed: pytest", "quality", evidence="FAILED tests/test_a.py::test_it - assert 1 == 2\n")
SOURCES = ["src/a.py", "src/b.py"]
TESTS = ["tests/test_a.py", "tests/test_b.py", "tests/test_c.py", "tests/conftest.py", "tests/helper.py"]
LINTED = "ruff check -- src/a.py && pyright src/a.py"


def verify(*gaps: dict[str, Any], allowed: tuple[str, ...] = ("src/a.py",), **more: Any) -> str:
    files = more.pop("files", [*SOURCES, *TESTS])
    return drafted(a_goal(*gaps, allowed=[*allowed], files=files, **more)).steps[-1].verify


@pytest.mark.parametrize(
    ("gaps", "context", "tests"),
    [
        ((RUFF,), {}, " && pytest -q"),
        ((RUFF,), {"failing_tests": ["tests/test_a.py::test_it"]}, " && pytest -q"),
        ((RUFF, a_gap("Quality check failed: mypy", "quality")), {}, " && pytest -q"),
        ((RUFF, a_gap("Tests for pytest")), {}, " && pytest -q"),
        ((PYTEST, RUFF), {}, " && pytest -q"),
        ((RUFF, PYTEST), {}, " && pytest -q -- tests/test_b.py tests/test_c.py"),
        ((RUFF, PYTEST), {"failing_tests": ["tests/test_b.py::TestX::test_it"]}, " && pytest -q -- tests/test_c.py"),
    ],
)
def test_tests_that_fail_because_of_another_gap_do_not_judge(
    gaps: tuple[dict[str, Any], ...], context: dict[str, Any], tests: str
) -> None:
    assert verify(*gaps, context=context) == LINTED + tests


@pytest.mark.parametrize(
    ("gaps", "context", "files"),
    [
        ((RUFF, PYTEST | {"evidence": ""}), {}, [*SOURCES, *TESTS]),
        ((RUFF, PYTEST), {"test_command": "tox"}, [*SOURCES, *TESTS]),
        ((RUFF, PYTEST), {"base_sha": "9f1c2d4"}, [*SOURCES, TESTS[0]]),
    ],
)
def test_without_other_tests_the_linters_judge_alone_and_once(
    gaps: tuple[dict[str, Any], ...], context: dict[str, Any], files: list[str]
) -> None:
    steps = drafted(a_goal(*gaps, allowed=["src/a.py"], files=files, context=context)).steps

    assert [step.step_id for step in steps if step.step_id != "reproduce"] == ["action-1"]
    assert steps[-1].verify == f"{LINTED} && python -m py_compile src/a.py"


def test_what_two_patches_passed_apart_is_verified_together() -> None:
    gap = a_gap("Change src/a.py and src/new.py")
    files = ["src/a.py", TESTS[0]]

    steps = drafted(a_goal(gap, PYTEST, allowed=["src/a.py", "src/new.py"], files=files)).steps

    assert [step.step_id for step in steps] == ["action-1", "action-2", "verify"]


def test_where_nothing_else_can_judge_all_tests_do() -> None:
    gap = a_gap("Change src/a.xyz")
    goal: dict[str, Any] = {"allowed": ("src/a.xyz",), "files": ["src/a.xyz"], "context": {"test_command": "make test"}}

    assert verify(gap, PYTEST, **goal) == "make test"


def test_it_stays_so_when_an_exploration_has_found_the_files() -> None:
    files = [f"src/m{number}.py" for number in range(8)]
    goal = a_goal(a_gap("Make it nice"), PYTEST, allowed=files, files=[*files, *TESTS])
    made = drafted(goal)
    live = LivePlan(goal, codec.loads(codec.dumps(made.state)), codec.loads(codec.dumps(made.document)), NOW)

    unfolded = gap_report.advance(live, End("explore-scope", {}, "DONE", {"files": ["src/m1.py"]}), CATALOGUE)

    assert isinstance(unfolded, Expansion)
    assert unfolded.steps[-1].verify.endswith("pyright src/m1.py && pytest -q -- tests/test_b.py tests/test_c.py")
