"""Verification by past failures: which check a step gets, which go last, and when nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from schemas import codec
from schemas.goal import Goal
from schemas.plan import MemoryView
from schemas.step import PlannedStep
from schemas.times import DAY_MS
from tasks.features.outcome_memory import OUTCOMES, compare_steps, put_checks, read
from tasks.memory.checks import MANY_RUNS, never_red
from tasks.memory.outcomes import read_records
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Draft
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.memory_store import EPOCH_MS
from tests.support.plans import a_plan_seed, a_step
from worker.render.plan import memory_lines

TITLE, FILE, TEST = "Mend the sum of the cart", "src/a.py", "tests/test_a.py::test_sum"
PYPROJECT = '[project]\nname = "shop"\n[tool.ruff]\n[tool.mypy]\n[tool.pytest.ini_options]\n'
ALL_TOOLS = ("ruff-check", "mypy", "pytest")


def a_record(category: str = "", tools: Sequence[str] = ALL_TOOLS, tests: Sequence[str] = (), **other: Any) -> bytes:
    title, files = other.get("title", TITLE), other.get("files", [FILE])
    return codec.dumps([EPOCH_MS // DAY_MS, "fix_test", title, files, tools, 1, category, tests])


def step_like_those(**fields: Any) -> PlannedStep:
    tools = (CATALOGUE.match("python -m py_compile src/a.py"),)
    return a_step("a", files=[FILE], tools=tools).model_copy(update={"title": TITLE, **fields})


def begun(
    records: Sequence[bytes], *steps: PlannedStep, on: bool = True, pyproject: str = PYPROJECT
) -> tuple[PlanSeed, tuple[PlannedStep, ...]]:
    """What a plan begins as, and its steps, in a repository that has these records."""
    context = {"repo": "acme/shop", "manifests": {"pyproject.toml": pyproject}, "files": [FILE, "tests/test_a.py"]}
    goal = Goal.model_validate({"goal": "Fix the shop", "allowed_files": [FILE], "context": context})
    switches = {"memory_checks": 1} if on else {}
    born = replace(a_plan_seed(), recalled={OUTCOMES: read(records, goal, EPOCH_MS)}, switches=switches)
    kept = compare_steps(born, goal, Draft(steps))
    changed = put_checks(kept, steps)
    again = compare_steps(kept, goal, Draft(changed))
    assert put_checks(again, changed) == changed, "a replay decides alike"
    return kept, changed


@pytest.mark.parametrize(
    ("category", "command"),
    [
        ("LINT_ERROR", "ruff check src/a.py"),
        ("TYPE_ERROR", "mypy --follow-imports=silent src/a.py"),
        ("IMPORT_ERROR", "pytest --collect-only -q tests/test_a.py"),
        ("TEST_REGRESSION", f"pytest {TEST}"),
    ],
)
def test_the_last_patch_gets_the_check_that_sees_what_its_like_often_failed_by(category: str, command: str) -> None:
    records = [a_record(category, tests=[TEST])] * 2 + [a_record()] * 3
    other = a_step("other", files=["src/other.py"]).model_copy(update={"title": TITLE})
    kept, (first, last) = begun(records, other, step_like_those())
    tool = last.verify_tools[0]
    assert " ".join(word for word in tool.argv if word not in {"-q", "--"}) == command.replace(" -q", "")
    assert (first.verify_tools, last.verify_tools[1].tool, tool.tool in last.quick_checks) == ((), "py-compile", True)
    assert last.verify.startswith(tool.argv[0])
    view = MemoryView.of(kept.recalled[OUTCOMES])
    assert view is not None
    assert [(each.step_id, each.category, each.verify) for each in view.checks] == [("a", category, tool)]
    assert f"check by memory: {tool.tool} for a, since steps like it often fail by {category}" in memory_lines(view)


LINT = [a_record("LINT_ERROR")] * 2


@pytest.mark.parametrize(
    ("records", "step", "how"),
    [
        (LINT + [a_record()] * 8, {}, {}),  # a fifth is not more than a fifth
        (LINT + [a_record()] * 2, {}, {}),  # four are not enough
        (LINT + [a_record(tools=["pytest"])] * 3, {}, {}),  # it is not known to be green
        (LINT + [a_record()] * 3, {}, {"pyproject": "[project]\nname = 'shop'\n"}),  # it is not configured
        (LINT + [a_record()] * 3, {"piece_of": "b"}, {}),
        (LINT + [a_record()] * 3, {"verify_tools": (CATALOGUE.match("ruff check src/a.py"),)}, {}),
        (LINT + [a_record()] * 3, {}, {"on": False}),
        ([a_record("TEST_REGRESSION", tests=["--evil", "a b"])] * 2 + [a_record()] * 3, {}, {}),
        ([], {}, {}),
    ],
)
def test_without_a_reason_a_known_green_tool_or_the_setting_the_checks_stay(
    records: list[bytes], step: dict[str, Any], how: dict[str, Any]
) -> None:
    asked = step_like_those(**step)
    kept, changed = begun(records, asked, **how)
    assert (changed, "checks" in kept.recalled[OUTCOMES]) == ((asked,), False)


def test_a_check_that_found_nothing_in_twenty_runs_goes_last_unless_the_goal_asks_for_it() -> None:
    tools = tuple(map(CATALOGUE.match, ("ruff check src/a.py", "mypy src/a.py", "pytest tests/test_a.py")))
    step = step_like_those(verify_tools=tools, quick_checks=("ruff-check", "mypy"))
    quiet = [a_record()] * (MANY_RUNS - 1) + [a_record("TYPE_ERROR")]
    assert begun(quiet, step)[1] == (step,), "nineteen runs are not enough"
    kept, (changed,) = begun([*quiet, a_record()], step)
    assert [tool.tool for tool in changed.verify_tools] == ["mypy", "pytest", "ruff-check"]
    assert memory_lines(MemoryView.of(kept.recalled[OUTCOMES]))[-1] == (
        "check by memory: ruff-check goes last, since it never found anything"
    )
    asked = step.model_copy(update={"quick_checks": ()})
    assert begun([*quiet, a_record()], asked)[1] == (asked,)


def test_a_run_at_the_base_accepts_nothing_and_tests_are_never_quiet() -> None:
    contracts = CATALOGUE.contracts
    at_base = read_records([a_record(files=[])] * MANY_RUNS, EPOCH_MS)
    assert never_red(at_base, contracts) == frozenset()
    assert never_red(read_records([a_record()] * MANY_RUNS, EPOCH_MS), contracts) == {"ruff-check", "mypy"}
