"""No word of data chooses how a verification runs, whichever way it comes in: goals, drafts, reports, evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from schemas import codec
from schemas.base import FailureCategory as C
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.base.policy import REVISIONS
from tasks.handlers.goals import plan
from tasks.policy.narrowing import Evidence
from tasks.policy.revision import revision_of
from tasks.rules.strategy import Draft, Drafted, Rejected, Setting
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.kinds.gap_report import a_gap
from tests.support.kinds.gap_report import a_goal as a_gap_goal
from tests.support.plans import Running, a_step, fail_and_rest

HOSTILE = ("@conf/args.py", "@conf/test_args.py", "+nightly/test_a.py", "-pevil/test_a.py", "SHELL=x/test_a.py")
CONTEXT = {"language": "python", "test_command": "pytest -q"}


def a_goal(allowed: Iterable[str] = ("src/a.py", "tests/test_a.py"), **context: Any) -> Goal:
    told = {"goal": "Fix the login", "allowed_files": list(allowed), "context": {**CONTEXT, **context}}
    return Goal.model_validate(told)


def supplied(verify: Any, files: Iterable[str] = ("src/a.py",)) -> Goal:
    step = {"step_id": "a", "title": "A", "intent": "Do it", "allowed_files": list(files), "verify": verify}
    return Goal.model_validate({"goal": "Do it", "allowed_files": list(files), "steps": [step]})


def named(word: str) -> Goal:
    """What the planner makes of a JUnit report's failing tests."""
    return a_goal(failing_tests=[word, f"{word}::test_x", f"{word}::TestX::test_y[1]"])


def globbed(word: str) -> Goal:
    return a_goal(["**/*.py"], files=[word, "src/a.py", "tests/test_a.py"])


def reported(word: str) -> Goal:
    gap = a_gap("Quality check failed: ruff", "quality", evidence=f"{word}:1:1: E1 x\n{word}::test_x FAILED")
    allowed = [word, "src/a.py"] if not word.startswith("-") else ["src/a.py"]
    return a_gap_goal(gap, allowed=allowed, files=[word, "src/a.py"], context=CONTEXT)


def campaign(word: str) -> Goal:
    task = {
        "seq": "001",
        "slug": "a",
        "type": "BUILD",
        "goal": "Do it",
        "delta": ["src/a.py"],
        "verify": f"pytest {word}",
    }
    told = {"objective": "Do it", "tasks": [task]}
    return Goal.model_validate({"kind": "campaign", "allowed_files": ["src/a.py"], "goal": "Do it", "campaign": told})


WAYS: dict[str, Callable[[str], Goal]] = {
    "test_command": lambda word: a_goal(test_command=f"pytest {word}"),
    "test_command behind --": lambda word: a_goal(test_command=f"pytest -q -- {word}"),
    "verify as a command": lambda word: supplied(f"ruff check {word}"),
    "verify as a call": lambda word: supplied({"tool": "mypy", "args": [word]}),
    "verify as a list": lambda word: supplied(["pytest -q", {"tool": "pytest", "args": ["--", word]}]),
    "verify as a recipe": lambda word: supplied("python-full", [word] if word[0] != "-" else ["src/a.py"]),
    "failing tests": named,
    "a glob": globbed,
    "a gap report": reported,
    "a campaign": campaign,
}


def words(steps: Iterable[PlannedStep]) -> set[str]:
    return {word for step in steps for tool in step.verify_tools for word in tool.argv}


def is_hostile(word: str) -> bool:
    return word.startswith(("@", "+", "-pevil", "SHELL="))


@pytest.mark.parametrize("word", HOSTILE)
@pytest.mark.parametrize("way", WAYS)
def test_a_hostile_word_is_refused_or_stays_a_path(way: str, word: str) -> None:
    made = plan(WAYS[way](word))

    if isinstance(made, Rejected):
        assert {error.code for error in made.errors} <= {
            *("unknown_command", "unknown_test_command", "no_verification", "forbidden_path", "no_allowed_files")
        }
        return
    assert isinstance(made, Draft)
    assert not any(map(is_hostile, words(made.steps)))
    tools = [tool.model_copy(update={"strict": False}) for step in made.steps for tool in step.verify_tools]
    assert all(CATALOGUE.match_argv(tool.argv) == tool for tool in tools)


@pytest.mark.parametrize("word", HOSTILE)
@pytest.mark.parametrize(
    "command", ["pytest {}", "pytest -q -- {}", "ruff check {}", "mypy {}", "tox -e {}", "go test {}"]
)
def test_a_drafters_command_is_taken_without_a_hostile_word_or_not_at_all(command: str, word: str) -> None:
    said = f"Run `{command.format(word)}`"
    step = {"id": "one", "title": "Do it", "intent": "So that it is done", "files": ["src/a.py"], "validation": [said]}
    answer = Drafted(codec.dumps({"summary": "Do it", "steps": [step]}).decode(), None, 1)

    made = plan(a_goal(), setting=Setting(drafter="http", drafted=(answer,)))

    assert isinstance(made, Draft)
    assert not any(map(is_hostile, words(made.steps)))


@pytest.mark.parametrize("category", sorted(REVISIONS))
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("command", ["pytest -q", "pytest tests", "npx jest", "cargo test", "go test ./..."])
def test_a_hostile_test_name_in_evidence_narrows_nothing(command: str, nth: int, category: C) -> None:
    """A test prints the names of its own failures, so an agent can choose them."""
    tests = tuple(name for word in HOSTILE for name in (word, f"{word}::x", f"./{word}::x", f".//{word}"))
    step = a_step("a", files=("src/a.py", "@odd/b.py"), tools=(CATALOGUE.match(command),), retries=3)

    found = revision_of(step, Evidence(category, tests, ("src/a.py",)), nth)

    if found:
        assert not any(map(is_hostile, words(filter(None, (found.step, found.before)))))
        assert "narrow_verification" not in found.strategies
        assert "isolate" not in found.strategies


def test_a_verification_is_narrowed_to_the_first_test_whose_name_is_well_formed() -> None:
    plan = Running(a_step("a", tools=(CATALOGUE.match("pytest -q"),), retries=3))

    fail_and_rest(plan, "a", "FLAKY_TEST", top_failing_tests=["@conf/args.py::x", "tests/test_a.py::test_x"])

    assert [spec["verify"] for spec in plan.specs] == ["pytest -q -- tests/test_a.py::test_x && pytest -q"]


def test_a_verification_by_one_test_is_not_narrowed_to_it_again() -> None:
    step = a_step("a", tools=(CATALOGUE.match("pytest -q tests/test_a.py::test_x"),), retries=3)

    assert revision_of(step, Evidence(C.FLAKY_TEST, ("tests/test_a.py::test_x",)), 1) is None
