"""The two state machines: every row that is drawn for them, and not one more."""

from __future__ import annotations

from itertools import product

import pytest

from schemas.base import PlanState, StepState
from tasks.base.errors import IllegalTransition
from tasks.plan.lifecycle import (
    PLAN_ENDS,
    PLAN_MOVES,
    STEP_MOVES,
    WAITING,
    check_plan,
    check_step,
    lists_of,
)
from tasks.plan.unit_of_work import UnitOfWork
from tests.support.plans import Running, a_step
from worker.store.plans import Ask

STEP_ROWS = {
    ("PENDING", "ACTIVE"),
    ("PENDING", "SKIPPED"),
    ("PENDING", "BLOCKED"),
    ("BLOCKED", "PENDING"),
    ("ACTIVE", "DONE"),
    ("ACTIVE", "ACTIVE"),
    ("ACTIVE", "FAILED"),
    ("FAILED", "HALTED"),
}
PLAN_ROWS = {
    ("CREATED", "VALIDATING"),
    ("VALIDATING", "REJECTED"),
    ("VALIDATING", "READY"),
    ("READY", "EXECUTING"),
    ("EXECUTING", "EXECUTING"),
    ("EXECUTING", "REVISING"),
    ("EXECUTING", "COMPLETED"),
    ("EXECUTING", "HALTED"),
    ("REVISING", "EXECUTING"),
    ("REVISING", "HALTED"),
}
NO_STEP_ROWS = sorted(set(product(StepState.__members__, repeat=2)) - STEP_ROWS)
NO_PLAN_ROWS = sorted(set(product(PlanState.__members__, repeat=2)) - PLAN_ROWS)


def a_fold(step: str = "PENDING", plan: str = "EXECUTING") -> UnitOfWork:
    """A fold of a plan with the step `a`, brought into these states."""
    view = Running(a_step("a")).begin(Ask("plan_00-" + "1".zfill(32), ["a"]))
    view.steps["a"].status.state = step
    view.record.state = plan
    view.record.counts = {step: 1}
    return UnitOfWork(view)


def seen(fold: UnitOfWork) -> tuple[object, ...]:
    step, plan, change = fold.snapshot.steps["a"], fold.plan, fold.change
    return step.status.state, plan.state, dict(plan.counts), set(plan.dirty), list(change.events), list(fold.moves)


def test_the_step_machine_has_the_eight_rows_of_the_seed() -> None:
    assert set(STEP_MOVES) == STEP_ROWS


def test_the_plan_machine_has_the_rows_of_the_seed() -> None:
    assert set(PLAN_MOVES) == PLAN_ROWS


@pytest.mark.parametrize(("before", "after"), sorted(STEP_ROWS))
def test_a_step_goes_along_a_row(before: str, after: str) -> None:
    fold = a_fold(step=before)

    fold.move_step(fold.snapshot.steps["a"], after, "moved")

    assert fold.snapshot.steps["a"].status.state == after
    assert fold.moves == [("a", before, after)]
    assert {state: count for state, count in fold.plan.counts.items() if count} == {after: 1}
    assert "a" in fold.touched


@pytest.mark.parametrize(("before", "after"), NO_STEP_ROWS)
def test_every_other_move_of_a_step_is_refused_and_changes_nothing(before: str, after: str) -> None:
    fold = a_fold(step=before)
    was = seen(fold)

    with pytest.raises(IllegalTransition, match=f"step a cannot go {before} -> {after}"):
        fold.move_step(fold.snapshot.steps["a"], after, "moved")

    assert seen(fold) == was
    assert not fold.close().changed


@pytest.mark.parametrize(("before", "after"), sorted(PLAN_ROWS))
def test_a_plan_goes_along_a_row(before: str, after: str) -> None:
    fold = a_fold(plan=before)

    fold.move_plan(after, "moved")

    assert fold.plan.state == after
    assert fold.moves == [("", before, after)]
    assert fold.change.ends == (after in PLAN_ENDS)


@pytest.mark.parametrize(("before", "after"), NO_PLAN_ROWS)
def test_every_other_move_of_a_plan_is_refused_and_changes_nothing(before: str, after: str) -> None:
    fold = a_fold(plan=before)
    was = seen(fold)

    with pytest.raises(IllegalTransition, match=f"cannot go {before} -> {after}"):
        fold.move_plan(after, "moved")

    assert seen(fold) == was
    assert not fold.change.ends


@pytest.mark.parametrize("state", ["DONE", "SKIPPED", "HALTED"])
def test_a_step_that_is_over_goes_nowhere(state: str) -> None:
    assert not [row for row in STEP_MOVES if row[0] == state]


@pytest.mark.parametrize("state", sorted(PLAN_ENDS))
def test_a_plan_that_is_over_goes_nowhere(state: str) -> None:
    assert not [row for row in PLAN_MOVES if row[0] == state]


@pytest.mark.parametrize("wrong", ["", "done", "Pending", "GONE"])
def test_a_word_that_is_no_state_is_refused(wrong: str) -> None:
    with pytest.raises(IllegalTransition):
        check_step("a", wrong, "DONE")
    with pytest.raises(IllegalTransition):
        check_plan("p", "EXECUTING", wrong)


@pytest.mark.parametrize(
    ("kind", "approvals", "listed"), [("draft", 0, False), ("clarify", 0, True), ("draft", 1, True)]
)
def test_only_a_plan_that_waits_for_a_person_is_in_the_list_of_those(
    kind: str, approvals: int, *, listed: bool
) -> None:
    plan = a_fold(plan="EXECUTING").plan
    plan.question, plan.waits = {"kind": kind}, dict.fromkeys(["a"][:approvals], 1)

    assert (WAITING in lists_of(plan)) == listed
