"""What the reference controller reports of a change: what it does to tests and checks, read from both trees."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.controlling import FIX, PYTEST, Planner, Repo

SKIP = "write('test_calc.py', 'import pytest\\n\\n\\n@pytest.mark.skip\\ndef test_adds():\\n    assert True\\n')"
FILES = ["calc.py", "test_calc.py"]
FAILING = {"base_sha": None, "failing_tests": ["test_calc.py::test_adds"]}


def test_a_change_that_skips_a_test_lands_and_is_reported_with_its_places(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    planner.send("fix", intent=SKIP, allowed_files=FILES, verify_tools=[PYTEST])
    start()

    outcome = planner.outcome("fix")

    assert outcome.success
    assert outcome.integrity
    assert outcome.integrity.counts == {"test_skipped": 1, "test_emptied": 1}
    places = [(place.kind, place.path, place.line) for place in outcome.integrity.places]
    assert places == [("test_skipped", "test_calc.py", 5), ("test_emptied", "test_calc.py", 5)]
    assert repo.landed() == ["test_calc.py"]


def test_an_honest_change_reports_nothing(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("fix", intent=FIX, allowed_files=FILES, verify_tools=[PYTEST])
    start()

    assert planner.outcome("fix").integrity is None


def test_a_condition_on_the_inputs_of_the_failing_test_is_reported(
    planner: Planner, start: Callable[..., None]
) -> None:
    special = "write('calc.py', 'def add(a, b):\\n    if (a, b) == (2, 2):\\n        return 4\\n    return a - b\\n')"
    planner.send("fix", intent=special, allowed_files=FILES, verify_tools=[PYTEST], context=FAILING)
    start()

    outcome = planner.outcome("fix")

    assert outcome.integrity
    assert outcome.integrity.counts == {"special_case": 1}


def test_what_the_planner_refused_is_taken_off_the_branch_and_not_found_again(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    planner.send("fix", intent=SKIP, allowed_files=FILES, verify_tools=[PYTEST])
    start()
    assert planner.outcome("fix").success
    planner.redis.delete("planner:{0}:outcomes")
    context = {"base_sha": None, "previous_failure": {"category": "INTEGRITY"}}

    planner.send("fix", attempt=2, intent=FIX, allowed_files=FILES, verify_tools=[PYTEST], context=context)

    outcome = planner.outcome("fix")
    assert (outcome.success, outcome.integrity, outcome.touched_files) == (True, None, ("calc.py",))
    assert repo.landed() == ["calc.py"]


def test_a_change_that_is_found_is_reported_as_the_attempt_that_made_it_did(
    planner: Planner, start: Callable[..., None]
) -> None:
    planner.send("fix", intent=SKIP, allowed_files=FILES, verify_tools=[PYTEST])
    start()
    first = planner.outcome("fix")
    planner.redis.delete("planner:{0}:outcomes")

    planner.send("fix", attempt=2, intent="raise SystemExit(1)", allowed_files=FILES, verify_tools=[PYTEST])

    found = planner.outcome("fix")
    assert (found.success, found.diff_hash, found.integrity) == (True, first.diff_hash, first.integrity)
