"""The stricter rules of gap reports, for operators who want them."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.rules.strategy import End, NothingToDo
from tasks.strategies import gap_report
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.kinds.gap_report import a_gap, a_goal, answered, drafted, growing, planned, records
from worker.settings.settings import Settings

BOTH = a_gap("Quality check failed: ruff", "quality", evidence="src/a.py:1:1: F401 x\nseed.py:1:1: F401 x\n")
NEXT = a_gap("Create src/b.py")
ALLOWED = ["src/a.py", "src/b.py", "seed.py"]


@pytest.mark.parametrize(
    ("options", "closed", "files"),
    [
        ({}, NEXT, ("src/b.py",)),
        ({"gap_protected": "action"}, NEXT, ("src/b.py",)),
        ({"gap_protected": "file"}, BOTH, ("src/a.py",)),
    ],
)
def test_a_protected_file_takes_its_action_away_or_goes_alone(
    options: dict[str, str], closed: dict[str, Any], files: tuple[str, ...]
) -> None:
    plan = planned(a_goal(BOTH, NEXT, allowed=ALLOWED), None, **options)

    assert (plan.gap.description, plan.actions[0].target_files) == (closed["description"], files)


def test_an_action_of_protected_files_alone_goes_either_way() -> None:
    goal = a_goal(a_gap("Create seed.py"), allowed=ALLOWED)

    assert answered(goal, gap_protected="file") == NothingToDo("all_protected")


@pytest.mark.parametrize(
    ("options", "risks"),
    [
        ({}, ["low", "high", "high", "high"]),
        ({"gap_high_risk": "failed"}, ["low", "high", "high", "high"]),
        ({"gap_high_risk": "exhausted"}, ["low", "low", "low", "high"]),
    ],
)
def test_a_past_makes_a_gap_risky_at_once_or_once_it_is_exhausted(options: dict[str, str], risks: list[str]) -> None:
    told = [records(*[(NEXT, "failure")] * count) for count in range(4)]
    plans = [planned(a_goal(NEXT, allowed=ALLOWED, recent_records=each), None, **options) for each in told]

    assert [plan.estimated_risk for plan in plans] == risks


def test_a_roadmap_gap_that_is_struck_through_is_none() -> None:
    struck = a_gap("~~Create src/a.py~~ (dropped)")

    assert planned(a_goal(struck, NEXT, allowed=ALLOWED)).gap.description == NEXT["description"]
    assert answered(a_goal(struck, allowed=ALLOWED)) == NothingToDo("no_gap")


@pytest.mark.parametrize(
    ("checks", "verify"),
    [
        (("ruff-check", "mypy"), "ruff check -- src/m1.py && mypy --follow-imports=silent -- src/m1.py && pytest -q"),
        (("compileall",), "python -m compileall -- src/m1.py && pytest -q"),
        ((), "pytest -q"),
    ],
)
def test_a_project_may_be_checked_by_other_tools_also_once_its_files_are_found(
    checks: tuple[str, ...], verify: str
) -> None:
    files = [f"src/m{number}.py" for number in range(8)]
    known = drafted(a_goal(a_gap("Change src/m1.py"), allowed=files, files=files), gap_checks=checks)
    goal = a_goal(a_gap("Make it nice"), allowed=files, files=files)
    growth = growing(goal, drafted(goal, gap_checks=checks))

    found = gap_report.advance(growth, End("explore-scope", {}, "DONE", {"files": ["src/m1.py"]}), CATALOGUE)

    assert found is not None
    assert (known.steps[-1].verify, found.steps[-1].verify) == (verify, verify)


def test_the_operator_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ours: dict[str, Any] = {
        "gap_protected": "action",
        "gap_high_risk": "failed",
        "gap_checks": None,
    }
    ours |= {"gap_max_failures": 3}
    assert Settings().planning.items() >= ours.items()

    monkeypatch.setenv("PLANNER_PLANNING_GAP_PROTECTED", "file")
    monkeypatch.setenv("PLANNER_PLANNING_GAP_HIGH_RISK", "exhausted")
    monkeypatch.setenv("PLANNER_PLANNING_GAP_CHECKS", "ruff-check, mypy")
    monkeypatch.setenv("PLANNER_PLANNING_GAP_MAX_FAILURES", "5")

    theirs: dict[str, Any] = {
        "gap_protected": "file",
        "gap_high_risk": "exhausted",
        "gap_checks": ("ruff-check", "mypy"),
    }
    theirs |= {"gap_max_failures": 5}
    assert Settings().planning.items() >= theirs.items()
