"""What the end of a step means for those that wait for it."""

from __future__ import annotations

import pytest

from tasks.plan.changeset import MAX_STEP_CHANGES
from tasks.plan.snapshot import WINDOW
from tests.support.plans import Running, a_failure, a_report, a_step, some_steps


def test_steps_without_dependencies_start_and_others_are_blocked() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), a_step("c", "a", "b"))

    assert plan.states == {"a": "ACTIVE", "b": "BLOCKED", "c": "BLOCKED"}
    assert {step: status.unmet for step, status in plan.steps.items()} == {"a": 0, "b": 1, "c": 2}


def test_a_step_starts_when_its_last_dependency_is_done() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("c", "a", "b"))

    plan.report(a_report("a"))
    after_one = plan.states["c"]
    plan.report(a_report("b"))

    assert after_one == "BLOCKED"
    assert plan.states["c"] == "ACTIVE"
    assert ["c", "BLOCKED", "PENDING"] in plan.log[-1]["moves"]


def test_dependencies_that_end_in_one_batch_are_each_counted() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("c", "a", "b"))

    plan.report(a_report("a"), a_report("b"))

    assert plan.steps["c"].unmet == 0
    assert plan.states["c"] == "ACTIVE"


def test_a_step_whose_dependency_failed_is_skipped_by_way_of_pending() -> None:
    plan = Running(a_step("a", retries=0), a_step("b", "a"), a_step("z"))

    plan.report(a_failure("a"))

    moves = [move for line in plan.log for move in line["moves"] if move[0] == "b"]
    assert moves == [["b", "BLOCKED", "PENDING"], ["b", "PENDING", "SKIPPED"]]
    assert plan.states["z"] == "ACTIVE"


def test_skips_cascade_to_the_end_of_a_chain() -> None:
    chain = [a_step("a", retries=0), *(a_step(f"s-{n}", f"s-{n - 1}" if n else "a") for n in range(30))]
    plan = Running(*chain, a_step("z"))

    plan.report(a_failure("a"))

    assert {plan.states[f"s-{n}"] for n in range(30)} == {"SKIPPED"}
    assert plan.state == "EXECUTING"


def test_a_step_is_skipped_once_though_two_of_its_dependencies_fail() -> None:
    plan = Running(a_step("a", retries=0), a_step("b", retries=0), a_step("c", "a", "b"))

    plan.report(a_failure("a"), a_failure("b"))

    assert [move for line in plan.log for move in line["moves"]].count(["c", "PENDING", "SKIPPED"]) == 1
    assert plan.states["c"] == "SKIPPED"


def test_a_skipped_step_is_not_woken_by_its_other_dependency() -> None:
    plan = Running(a_step("a", retries=0), a_step("b"), a_step("c", "a", "b"), a_step("z"))

    plan.report(a_failure("a"))
    plan.report(a_report("b"))

    assert plan.states["c"] == "SKIPPED"


@pytest.mark.parametrize("count", [WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW, 500])
def test_every_dependent_hears_of_an_end_however_many_there_are(count: int) -> None:
    plan = Running(a_step("root"), *some_steps(count, "root", files=()), max_parallel=1)

    plan.report(a_report("root"))

    assert {status.unmet for step, status in plan.steps.items() if step != "root"} == {0}
    assert sum(state == "ACTIVE" for state in plan.states.values()) == 1
    assert "BLOCKED" not in plan.states.values()


@pytest.mark.parametrize("count", [WINDOW + 1, 200])
def test_every_dependent_is_skipped_however_many_there_are(count: int) -> None:
    plan = Running(a_step("root", retries=0), *some_steps(count, "root"))

    plan.report(a_failure("root"))

    assert {state for step, state in plan.states.items() if step != "root"} == {"SKIPPED"}
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "cannot_revise")


def test_no_commit_changes_more_steps_than_it_may() -> None:
    plan = Running(a_step("root"), *some_steps(300, "root"), max_parallel=1)

    plan.report(a_report("root"))

    assert max(len(change.statuses) for change in plan.changes) <= MAX_STEP_CHANGES


def test_work_that_is_left_over_has_a_clock() -> None:
    plan = Running(a_step("root"), *some_steps(300, "root"), max_parallel=1)

    plan.report(a_report("root"))

    left_over = [change for change in plan.changes if change.todo_push]
    assert left_over
    assert all(change.more for change in left_over)
    assert plan.record.wake <= plan.store.now + 1000


def test_a_plan_does_not_end_while_ends_are_untold() -> None:
    plan = Running(a_step("root", retries=0), *some_steps(200, "root"))

    plan.report(a_failure("root"))

    assert [change.ends for change in plan.changes if change.todo_push] == [False] * 4
    assert plan.changes[-1].ends


@pytest.mark.parametrize("level", [1, 4])
def test_a_wide_lattice_runs_to_its_end(level: int) -> None:
    steps = some_steps(10)
    for depth in range(level):
        before = [step.step_id for step in steps[-10:]]
        steps += [a_step(f"d{depth}-{n}", *before) for n in range(10)]
    plan = Running(*steps, max_parallel=4)

    while plan.active:
        plan.report(*[a_report(step) for step in plan.active])

    assert plan.state == "COMPLETED"
    assert set(plan.states.values()) == {"DONE"}
