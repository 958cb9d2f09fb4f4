"""Budgets: what an attempt holds, and how whatever ends it settles that exactly once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.goal import Goal
from schemas.outcome import Metrics
from schemas.stored import Attempt, PlanRecord
from tasks.base.policy_text import read_policy
from tasks.handlers import goals
from tasks.rules import budget
from tasks.rules.strategy import Rejected, Setting
from tests.support.plans import Running, a_failure, a_report, a_step

ESTIMATE = {"tokens": 1000, "patch_cycles": 1}


def a_record(tokens: int = 10_000, patch_cycles: int = 10) -> PlanRecord:
    return Running(a_step("a", tokens=0, cycles=0), tokens=tokens, patch_cycles=patch_cycles).record


def an_attempt(held: tuple[int, int]) -> Attempt:
    return Attempt(1, "lease", "default", [], *held, 0, 0)


def hold(plan: PlanRecord, tokens: int, patch_cycles: int) -> tuple[int, int]:
    held = (budget.available(plan, "tokens", tokens), budget.available(plan, "patch_cycles", patch_cycles))
    budget.reserve(plan, *held)
    return held


def shown(plan: PlanRecord) -> tuple[int, int, int, int]:
    return (plan.reserved["tokens"], plan.reserved["patch_cycles"], plan.spent["tokens"], plan.spent["patch_cycles"])


@pytest.mark.parametrize(
    ("tokens", "cycles", "estimate", "held"),
    [
        (10_000, 10, {"tokens": 1000, "patch_cycles": 1}, (1000, 1)),
        (1000, 10, {"tokens": 1001, "patch_cycles": 1}, (1000, 1)),
        (10_000, 2, {"tokens": 1, "patch_cycles": 3}, (1, 2)),
        (10_000, 10, {"tokens": 0, "patch_cycles": 0}, (0, 0)),
    ],
)
def test_an_attempt_holds_its_estimate_or_what_is_left(
    tokens: int, cycles: int, estimate: dict[str, int], held: tuple[int, int]
) -> None:
    plan = a_record(tokens, cycles)

    assert hold(plan, **estimate) == held
    assert shown(plan) == (*held, 0, 0)


def test_nothing_is_held_of_a_budget_that_is_overspent() -> None:
    plan = a_record(1000)
    plan.spent["tokens"] = 5000

    assert hold(plan, **ESTIMATE) == (0, 1)


@pytest.mark.parametrize(
    ("metrics", "spent"),
    [
        (None, (1000, 1)),
        (Metrics(), (1000, 1)),
        (Metrics(tokens_used=7), (7, 1)),
        (Metrics(tokens_used=0, patch_cycles=0), (0, 0)),
        (Metrics(tokens_used=5000, patch_cycles=9), (5000, 9)),
        (Metrics(tokens_used=50_000), (10_000, 1)),
    ],
)
def test_an_outcome_books_what_it_tells_and_what_was_reserved_for_what_it_does_not(
    metrics: Metrics | None, spent: tuple[int, int]
) -> None:
    plan = a_record()
    held = hold(plan, **ESTIMATE)

    budget.settle(plan, an_attempt(held), metrics, ESTIMATE)

    assert shown(plan) == (0, 0, *spent)


@pytest.mark.parametrize(
    ("metrics", "spent"),
    [(None, (300, 0)), (Metrics(tokens_used=7), (7, 0)), (Metrics(patch_cycles=2), (300, 2))],
)
def test_what_an_outcome_leaves_out_settles_at_what_was_reserved(
    metrics: Metrics | None, spent: tuple[int, int]
) -> None:
    plan = a_record(tokens=1000, patch_cycles=1)
    hold(plan, 700, 1)  # another attempt in flight
    held = hold(plan, **ESTIMATE)

    budget.settle(plan, an_attempt(held), metrics, ESTIMATE)

    assert shown(plan) == (700, 1, *spent)


def test_tool_calls_are_counted() -> None:
    plan = a_record()

    budget.settle(plan, an_attempt(hold(plan, **ESTIMATE)), Metrics(tool_calls=4), ESTIMATE)

    assert plan.spent["tool_calls"] == 4


def test_an_attempt_that_vanished_is_booked_in_full() -> None:
    plan = a_record()

    budget.forfeit(plan, an_attempt(hold(plan, **ESTIMATE)))

    assert shown(plan) == (0, 0, 1000, 1)


def test_an_attempt_that_nobody_claimed_costs_nothing() -> None:
    plan = a_record()

    budget.release(plan, an_attempt(hold(plan, **ESTIMATE)))

    assert shown(plan) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("spent", "word"),
    [
        ({}, None),
        ({"tokens": 9999}, None),
        ({"tokens": 10_000}, "tokens"),
        ({"tokens": 10_001}, "tokens"),
        ({"patch_cycles": 10}, "patch_cycles"),
        ({"failing_outcomes": 1000}, "failing_outcomes"),
        ({"tool_calls": 10**6}, None),  # without a limit
        ({"tokens": 10_000, "patch_cycles": 10}, "tokens"),
    ],
)
def test_a_budget_is_used_up_at_its_limit(spent: dict[str, int], word: str | None) -> None:
    plan = a_record()
    plan.spent.update(spent)

    assert budget.first_exhausted(plan) == word


def test_what_is_held_counts_as_gone() -> None:
    plan = a_record(tokens=1000)
    hold(plan, **ESTIMATE)

    assert budget.first_exhausted(plan) == "tokens"
    assert budget.remaining_fraction(plan) == 0.0


def test_no_tool_calls_at_all_is_a_limit_that_only_a_call_breaks() -> None:
    plan = a_record()
    plan.limits["tool_calls"] = 0
    before = budget.first_exhausted(plan)
    plan.spent["tool_calls"] = 1

    assert (before, budget.first_exhausted(plan)) == (None, "tool_calls")


@pytest.mark.parametrize(
    ("spent", "share"),
    [({}, 1.0), ({"tokens": 2500}, 0.75), ({"tokens": 2500, "patch_cycles": 9}, 0.1), ({"tokens": 99_999}, 0.0)],
)
def test_the_share_that_is_left_is_that_of_the_scarcest(spent: dict[str, int], share: float) -> None:
    plan = a_record()
    plan.spent.update(spent)

    assert budget.remaining_fraction(plan) == share


def test_a_goal_without_limits_has_defaults_that_a_small_bug_fits() -> None:
    limits = budget.limits_of(Goal(goal="x"))

    wanted = {"tokens": 400_000, "patch_cycles": 15, "failing_outcomes": 10, "wall_clock_s": 1800, "max_parallel": 4}
    assert limits.items() >= wanted.items()


def test_the_steps_of_a_plan_raise_the_defaults_and_never_lower_them() -> None:
    few, many = (budget.expect([a_step("a", tokens=10_000, cycles=1)] * count) for count in (1, 100))

    assert budget.limits_of(Goal(goal="x"), expected=few) == budget.limits_of(Goal(goal="x"))
    raised = budget.limits_of(Goal(goal="x"), expected=many)
    assert (raised["tokens"], raised["wall_clock_s"], raised["patch_cycles"]) == (2_000_000, 30_000, 200)


def test_a_limit_that_the_goal_names_is_never_raised() -> None:
    goal = Goal.model_validate({"goal": "x", "limits": {"tokens": 5000, "wall_clock_s": 60}})
    limits = budget.limits_of(goal, expected=budget.expect([a_step("a", tokens=10_000)] * 100))

    assert (limits["tokens"], limits["wall_clock_s"]) == (5000, 60)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({}, []),
        ({"tokens": 80_000, "patch_cycles": 1}, []),
        ({"tokens": 79_999}, ["The 3 steps are expected to use 80000 tokens, and limits.tokens is 79999."]),
    ],
)
def test_a_goal_whose_steps_cannot_fit_its_limit_is_rejected_with_the_figures(
    limits: dict[str, int], told: list[str]
) -> None:
    context = {"language": "python", "failing_tests": ["tests/test_a.py::test_one"]}
    goal = {"goal": "Fix failing test tests/test_a.py::test_one", "allowed_files": ["src/a.py"], "context": context}

    answer = goals.plan(Goal.model_validate({**goal, "limits": limits}))

    errors = getattr(answer, "errors", ())
    assert [error.message for error in errors] == told
    assert [error.pointer for error in errors] == ["/limits/tokens"] * len(told)
    assert getattr(answer, "reason", "budget_too_small") == "budget_too_small"


def test_patches_that_cannot_all_be_tried_are_rejected() -> None:
    steps = [{"step_id": f"s-{n}", "title": "t", "intent": "i", "allowed_files": ["a.py"]} for n in range(3)]
    body = {"goal": "x", "allowed_files": ["a.py"], "limits": {"patch_cycles": 2}, "steps": steps}

    answer = goals.plan(Goal.model_validate(body))

    assert isinstance(answer, Rejected)
    assert answer.reason == "budget_too_small"
    assert "expected to use 3 patch_cycles, and limits.patch_cycles is 2" in answer.errors[0].message


def test_what_a_policy_allows_at_most_can_be_too_small() -> None:
    found = read_policy(b"[most]\ntokens = 20000")
    body: dict[str, Any] = {"goal": "x", "allowed_files": ["a.py"]}
    body["steps"] = [{"step_id": "s", "title": "t", "intent": "i", "allowed_files": ["a.py"]}]

    answer = goals.plan(Goal.model_validate(body), setting=Setting(policy=found))

    assert isinstance(answer, Rejected)
    assert answer.errors[0].message.endswith("and the policy allows limits.tokens up to 20000.")


def test_a_limit_of_the_goal_wins() -> None:
    goal = Goal.model_validate({"goal": "x", "limits": {"tokens": 5000, "max_new_files": 0}})

    assert (budget.limits_of(goal)["tokens"], budget.limits_of(goal)["max_new_files"]) == (5000, 0)


@settings(max_examples=60, deadline=None)
@given(
    tokens=st.integers(1000, 5000),
    estimates=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3)), min_size=1, max_size=6),
    used=st.lists(st.integers(0, 4000), min_size=1, max_size=30),
)
def test_what_is_held_is_never_negative_and_nothing_is_held_at_the_end(
    tokens: int, estimates: list[tuple[int, int]], used: list[int]
) -> None:
    steps = [a_step(f"s-{n}", tokens=each, cycles=cycles) for n, (each, cycles) in enumerate(estimates)]
    plan = Running(*steps, tokens=tokens, patch_cycles=5, max_parallel=3)

    for number, amount in enumerate(used * 24):  # six steps, at most four attempts each
        if not plan.active:
            break
        step = min(plan.active)
        report = a_failure if amount % 3 == 0 else a_report
        plan.report(report(step, metrics={"tokens_used": amount}, diff_hash=str(number)))
        reserved = plan.record.reserved
        assert reserved["tokens"] == sum(attempt.tokens for attempt in plan.active.values())
        assert reserved["patch_cycles"] == sum(attempt.patch_cycles for attempt in plan.active.values())
        assert min(reserved.values()) >= 0

    assert not plan.active
    assert not any(plan.record.reserved.values())
    assert plan.state in ("COMPLETED", "HALTED")
