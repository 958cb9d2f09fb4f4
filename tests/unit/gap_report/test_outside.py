"""What a goal does not allow is passed over and told, and globs allow what is yet to be made."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.rules.strategy import Draft, Setting
from tasks.strategies import gap_report
from tasks.strategies.gap_report.outside import describe_outside
from tasks.text.forbidden_paths import forbid
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.kinds.gap_report import a_gap, a_goal, answered, codes, drafted, planned, records, targets

LISTED = ["src/a.py", "src/b.py", "tests/test_a.py", "docs/conf.py"]
DOCS = a_gap("Quality check failed: ruff", "quality", evidence="docs/conf.py:1:1: I001 x\n")
MIXED = a_gap(
    "Quality check failed: mypy", "quality", evidence="src/a.py:1: error: x  [misc]\ntests/test_a.py:2: error: y"
)


def reasons(goal: Any, **options: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(each.description, each.reason, each.files) for each in planned(goal, None, **options).passed_over]


def test_a_gap_that_the_goal_does_not_allow_is_passed_over_for_the_next_one() -> None:
    goal = a_goal(DOCS, a_gap("Create seed.py"), a_gap("Change src/b.py"), allowed=["src/b.py"], files=LISTED)

    plan = planned(goal)

    assert plan.gap.description == "Change src/b.py"
    assert reasons(goal) == [
        ("Quality check failed: ruff", "outside", ("docs/conf.py",)),
        ("Create seed.py", "protected", ()),
    ]
    assert plan.gaps_left == 2
    assert drafted(goal).phases[0].status == (
        "high roadmap: Change src/b.py; 2 passed over, outside of allowed_files or protected."
    )


def test_a_gap_that_failed_too_often_is_told_where_it_would_have_come_first() -> None:
    first, last = a_gap("Change src/a.py"), a_gap("Change src/b.py")
    goal = a_goal(first, last, allowed=["src/*.py"], files=LISTED, recent_records=records(*[(first, "failure")] * 3))

    assert reasons(goal) == [("Change src/a.py", "failed", ())]


def test_where_no_gap_is_allowed_the_goal_is_refused_with_the_files_of_the_first() -> None:
    made = answered(a_goal(a_gap("Create seed.py"), DOCS, allowed=["src/b.py"], files=LISTED))

    assert codes(made) == [("/allowed_files", "no_allowed_files")]
    assert "docs/conf.py" in str(made)


def test_files_of_the_gap_that_stay_outside_are_told() -> None:
    goal = a_goal(MIXED, DOCS, allowed=["src/*.py"], files=LISTED)

    draft, plan = drafted(goal), planned(goal)

    assert plan.actions[0].target_files == ("src/a.py", "tests/test_a.py")
    assert plan.outside == ("tests/test_a.py",)
    assert draft.steps[0].allowed_files == ("src/a.py",)
    assert describe_outside(draft.document) == (
        "Outside of this plan: 1 file that allowed_files does not have (tests/test_a.py); 1 more gap of the report."
    )
    assert draft.phases[2].name == "outside"


def test_a_document_without_anything_outside_says_nothing_more() -> None:
    draft = drafted(a_goal(a_gap("Change src/a.py"), allowed=["src/a.py"], files=LISTED))

    assert {"outside", "passed_over", "gaps_left"}.isdisjoint(draft.document or {})
    assert describe_outside(draft.document) is None
    assert describe_outside(None) is None


@pytest.mark.parametrize(
    ("allowed", "made"),
    [
        (["src/**"], ("src/shop/parser.py",)),
        (["src/shop/*.py", "tests/**"], ("src/shop/parser.py",)),
        (["src/*/parser.py"], ("src/shop/parser.py",)),
    ],
)
def test_a_glob_allows_what_a_roadmap_creates(allowed: list[str], made: tuple[str, ...]) -> None:
    goal = a_goal(a_gap("Create src/shop/parser.py"), allowed=allowed, files=LISTED)

    assert targets(goal) == [("create", made)]
    assert drafted(goal).steps[0].allowed_files == made


@pytest.mark.parametrize("allowed", [["src/*.py"], ["tests/**"], ["src/shop/other.py"], ["src/shop/*.ts"]])
def test_a_glob_that_does_not_mean_a_new_file_leaves_it_outside(allowed: list[str]) -> None:
    made = answered(a_goal(a_gap("Create src/shop/parser.py"), allowed=allowed, files=LISTED))

    assert codes(made) == [("/allowed_files", "no_allowed_files")]


def test_no_glob_allows_a_new_file_that_is_forbidden() -> None:
    goal = a_goal(a_gap("Create src/shop/parser.py"), allowed=["src/**"], files=LISTED)

    made = gap_report.draft(goal, CATALOGUE, Setting(now=1, forbidden=forbid(("shop/",))))

    assert isinstance(made, Draft)
    assert made.steps[0].allowed_files == ("src/a.py", "src/b.py")


def test_of_more_files_than_an_action_may_have_those_that_are_allowed_stay() -> None:
    every = [f"src/m{number}.py" for number in range(150)]
    gap = a_gap("Quality check failed: ruff", "quality", evidence="".join(f"{path}:1:1: F401 x\n" for path in every))

    plan = planned(a_goal(gap, allowed=["src/m149.py"], files=every))

    assert plan.actions[0].target_files[0] == "src/m149.py"
    assert len(plan.actions[0].target_files) == 100
