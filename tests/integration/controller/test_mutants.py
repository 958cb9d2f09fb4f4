"""A sample that looks again: failing tests are run on mutants of a change, and mutants that pass are reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.controlling import FIX, PYTEST, Planner, Repo

LOOSE = "def add(a, b):\\n    if a > 100:\\n        return b\\n    return a + b\\n"
UNTESTED = f"write('calc.py', '{LOOSE}')"
ASKED: dict[str, Any] = {
    "allowed_files": ["calc.py"],
    "verify_tools": [PYTEST],
    "context": {"base_sha": None, "failing_tests": ["test_calc.py::test_adds"]},
}


@pytest.mark.outages
def test_a_mistake_that_no_test_notices_is_reported_with_its_line(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    planner.send("fix", intent=UNTESTED, **ASKED)
    start(mutants=20)

    outcome = planner.outcome("fix")

    assert outcome.success
    assert outcome.integrity
    survived = outcome.integrity.counts["mutant_survives"]
    found = {(place.line, place.what) for place in outcome.integrity.places if place.kind == "mutant_survives"}
    assert (2, "if a > 100: -> if a >= 100:") in found
    assert (3, "return b -> return None") in found
    assert all(line in (2, 3) for line, _ in found), "what the test looks at was noticed"
    assert survived == len(found)
    assert "if a > 100:" in repo.git("show", "planner/plan_3c-0199aaaabbbbccccddddeeeeffff0000:calc.py")


@pytest.mark.outages
def test_a_change_whose_mistakes_are_all_noticed_reports_nothing(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("fix", intent=FIX, **ASKED)
    start(mutants=20)

    assert planner.outcome("fix").integrity is None


def test_a_policy_asks_for_mutants_by_the_spec(planner: Planner, start: Callable[..., None]) -> None:
    limits = {"max_diff_lines": 200, "tokens": 20000, "mutants": 20}
    planner.send("fix", intent=UNTESTED, **ASKED, limits=limits)
    start()

    outcome = planner.outcome("fix")

    assert outcome.integrity
    assert "mutant_survives" in outcome.integrity.counts


def test_nothing_is_mutated_unless_that_is_asked_for(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("fix", intent=UNTESTED, **ASKED)
    start()

    assert planner.outcome("fix").integrity is None
