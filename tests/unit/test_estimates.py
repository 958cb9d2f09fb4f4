"""What attempts are expected to use is learned from those before them on their queue."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.goal import Goal
from schemas.stored import PlanHead
from tasks.features.estimates import assign_added
from tasks.handlers import goals
from tasks.plan.unit_of_work import UnitOfWork
from tasks.rules import estimates
from tasks.rules.strategy import Draft, Setting
from tests.support.plans import PLAN, Running, a_check, a_failure, a_plan, a_report, a_step
from worker.store.plans import Ask


def drafted(learned: dict[str, int], **body: Any) -> dict[str, int]:
    """The expected tokens of each step of a goal."""
    answer = goals.plan(Goal.model_validate({"goal": "x", **body}), setting=Setting(learned=learned))
    assert isinstance(answer, Draft)
    return {step.step_id: step.estimate.tokens for step in answer.steps}


def test_the_median_of_what_attempts_used_is_learned_once_there_are_some() -> None:
    used = {"patch:a": [10, 1000, 30, 20, 40], "patch:b": [7] * (estimates.FEWEST - 1)}

    assert estimates.learn(used) == {"patch:a": 30}


def test_a_plan_is_made_with_what_was_learned_of_its_queue() -> None:
    steps = [
        {"step_id": "look", "title": "t", "intent": "i", "mode": "read_only"},
        {"step_id": "patch", "title": "t", "intent": "i", "allowed_files": ["a.py"]},
        {"step_id": "slow", "title": "t", "intent": "i", "allowed_files": ["a.py"], "queue": "slow"},
        {"step_id": "named", "title": "t", "intent": "i", "allowed_files": ["a.py"], "estimate": {"tokens": 60_000}},
        {"step_id": "check", "title": "t", "intent": "i", "verify": "pytest"},
    ]
    goal = {"allowed_files": ["a.py"], "steps": steps, "context": {"language": "python"}}
    learned = {"patch:default": 90_000, "read_only:default": 5000, "test:default": 1}

    assert drafted(learned, **goal) == {
        "look": 5000,
        "patch": 90_000,
        "slow": 60_000,
        "named": 60_000,
        "check": 500,
    }
    assert drafted({}, **goal)["patch"] == 60_000
    assert estimates.names_of(Goal.model_validate({"goal": "x", **goal})) == [
        *("patch:default", "read_only:default"),
        *("patch:slow", "read_only:slow"),
    ]


def test_a_limit_that_what_was_learned_does_not_fit_is_too_small() -> None:
    steps = [{"step_id": "patch", "title": "t", "intent": "i", "allowed_files": ["a.py"]}]
    goal = Goal.model_validate({"goal": "x", "allowed_files": ["a.py"], "steps": steps, "limits": {"tokens": 70_000}})

    assert isinstance(goals.plan(goal), Draft)
    answer = goals.plan(goal, setting=Setting(learned={"patch:default": 70_001}))
    assert getattr(answer, "reason", None) == "budget_too_small"


def test_steps_that_are_added_later_have_the_estimates_that_their_plan_was_made_with() -> None:
    (change,) = a_plan(a_step("a"), born={"learned": {"patch:default": 90_000}})
    assert PlanHead.decode(change.fields["head"]).learned == {"patch:default": 90_000}
    view = Running(a_step("a")).begin(Ask(PLAN))
    view.record.head.learned = {"patch:default": 90_000}

    added = assign_added(UnitOfWork(view), (a_step("b", tokens=60_000), a_step("c", tokens=61_000)))

    assert [step.estimate.tokens for step in added] == [90_000, 61_000]


def test_a_plan_that_learned_nothing_stores_nothing_of_it() -> None:
    (change,) = a_plan(a_step("a"))

    assert b"learned" not in change.fields["head"]
    assert PlanHead.decode(change.fields["head"]).learned is None


@pytest.mark.parametrize(
    ("report", "left"),
    [
        (a_report("a", metrics={"tokens_used": 300}), [("patch:default", 300)]),
        (a_failure("a", metrics={"tokens_used": 400}), [("patch:default", 400)]),
        (a_report("a", metrics={"tokens_used": -1}), [("patch:default", 0)]),
        (a_report("a", metrics={"patch_cycles": 1}), []),
        (a_report("a"), []),
        (a_report("a", success=False, released={"reason": "no room"}, metrics={"tokens_used": 5}), []),
        (a_report("check", metrics={"tokens_used": 300}), []),
    ],
)
def test_an_attempt_leaves_what_its_controller_says_that_it_used(report: Any, left: list[tuple[str, int]]) -> None:
    plan = Running(a_step("a"), a_check("check"))

    plan.report(report)

    assert plan.changes[-1].used == left
