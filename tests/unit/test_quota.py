"""Day budgets: what attempts take from a partition's grants, what comes back, and what happens at the end of a day."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from schemas.step import PlannedStep
from schemas.times import DAY_MS, rfc3339
from tasks.handlers import outcomes
from tests.support.memory_store import MemoryStore
from tests.support.plans import (
    PARTITION,
    PLAN,
    Running,
    a_failure,
    a_report,
    a_step,
    plan_id,
    some_steps,
    wait_sweeping,
)
from worker.store.plans import Ask, Write

TENANT, REPO = "tenant:acme", "repository:acme/shop"


def a_store(**budgets: int) -> MemoryStore:
    store = MemoryStore(PARTITION)
    names = {"tenant": TENANT, "repository": REPO}
    store.budgets = {names[kind]: tokens for kind, tokens in budgets.items()}
    return store


def budgeted(store: MemoryStore, *steps: PlannedStep, plan: int = 1, **limits: Any) -> Running:
    return Running(
        *steps, store=store, plan=plan_id(plan), tenant="acme", repo="acme/shop", budgets=[*store.budgets], **limits
    )


def left(store: MemoryStore, scope: str = TENANT) -> int:
    return store.grants([scope])[scope].left


def unspent(store: MemoryStore, scope: str = TENANT) -> int:
    """What of today's budget is neither spent nor held."""
    return store.budgets[scope] - store.granted.get((store.now // DAY_MS, scope), 0) + left(store, scope)


def test_an_attempt_takes_its_reservation_from_every_grant_that_counts() -> None:
    store = a_store(tenant=10_000, repository=5000)

    budgeted(store, a_step("a", tokens=700))

    assert (unspent(store, TENANT), unspent(store, REPO)) == (9300, 4300)


def test_what_an_attempt_did_not_use_is_given_back_on_the_same_day() -> None:
    store = a_store(tenant=10_000)
    plan = budgeted(store, a_step("a", tokens=700))

    plan.report(a_report("a", metrics={"tokens_used": 200}))

    assert unspent(store) == 9800


def test_what_an_attempt_used_beyond_its_reservation_is_taken_too() -> None:
    store = a_store(tenant=10_000)
    plan = budgeted(store, a_step("a", tokens=700))

    plan.report(a_report("a", metrics={"tokens_used": 1200}))

    assert unspent(store) == 8800


def test_what_an_attempt_of_yesterday_gives_back_went_with_that_day() -> None:
    store = a_store(tenant=10_000)
    plan = budgeted(store, a_step("a", tokens=4000), a_step("b", "a", tokens=1000), wall_clock_s=86_400)
    store.wait(DAY_MS - store.now % DAY_MS)

    plan.report(a_report("a", metrics={"tokens_used": 500}))

    assert unspent(store) == 9000
    assert list(plan.active) == ["b"]


def test_what_an_attempt_of_yesterday_used_beyond_its_reservation_is_of_today() -> None:
    store = a_store(tenant=10_000)
    plan = budgeted(store, a_step("a", tokens=700), wall_clock_s=86_400)
    store.wait(DAY_MS - store.now % DAY_MS)

    plan.report(a_report("a", metrics={"tokens_used": 900}))

    assert left(store) == -200


def test_an_attempt_of_yesterday_that_nobody_claimed_gives_nothing_back_today() -> None:
    store = a_store(tenant=10_000)
    store.wait(DAY_MS - store.now % DAY_MS - 60_000)
    budgeted(store, a_step("a", tokens=700), wall_clock_s=86_400)
    plan = budgeted(store, a_step("a", tokens=700), plan=2, wall_clock_s=86_400)

    wait_sweeping(plan, 3_600_000, every=60_000)

    assert plan.active["a"].attempt == 2
    assert unspent(store) == 9300


def test_a_plan_waits_for_the_next_day_once_the_budget_is_used_up() -> None:
    store = a_store(tenant=1000)
    plan = budgeted(store, a_step("a", tokens=1000), a_step("b", "a", tokens=1000), wall_clock_s=600)
    plan.report(a_report("a"))
    assert plan.active == {}
    assert plan.record.held == f"the day budget of {TENANT} is used up"
    midnight = store.now - store.now % DAY_MS + DAY_MS
    wait_sweeping(plan, 10_000)
    assert store.hash(PARTITION.timers)[PLAN] == midnight

    store.wait(midnight - store.now - 1)
    plan.sweep()
    assert plan.active == {}
    store.wait(1)
    plan.sweep()

    assert list(plan.active) == ["b"]
    assert rfc3339(store.now).endswith("T00:00:00.000Z")
    assert plan.state == "EXECUTING"


def test_a_plan_goes_on_when_the_day_is_topped_up() -> None:
    store = a_store(tenant=1000)
    plan = budgeted(store, a_step("a", tokens=1000), a_step("b", "a", tokens=1000))
    plan.report(a_report("a"))
    store.budgets[TENANT] += 5000
    store.give(TENANT, 0)  # no more said to be exhausted

    plan.look()

    assert list(plan.active) == ["b"]
    assert unspent(store) == 4000


def test_an_attempt_may_hold_the_rest_of_the_day_and_no_more() -> None:
    store = a_store(tenant=1300)

    plan = budgeted(store, a_step("a", tokens=1000), a_step("b", tokens=1000))

    assert {step: attempt.tokens for step, attempt in plan.active.items()} == {"a": 1000, "b": 300}
    assert unspent(store) == 0


def test_what_is_in_flight_goes_on_when_the_day_is_used_up() -> None:
    store = a_store(tenant=2000)
    plan = budgeted(store, a_step("a", tokens=1000), a_step("b", tokens=1000), a_step("c", "a"))
    plan.report(a_report("a"))

    assert list(plan.active) == ["b"]
    assert plan.record.held
    assert "action" not in store.lease(PLAN, "b")
    assert plan.report(a_report("b")) == ["applied"]
    assert plan.state == "EXECUTING"


def test_a_plan_whose_outcome_used_up_the_day_is_held_and_not_forgotten() -> None:
    store = a_store(tenant=2000)
    plan = budgeted(store, a_step("a", tokens=1000), a_step("b", "a", tokens=1000), wall_clock_s=600)

    plan.report(a_report("a", metrics={"tokens_used": 2000}))

    assert plan.record.held
    wait_sweeping(plan, 3_600_000, every=60_000)
    assert plan.state == "EXECUTING"


def test_the_tighter_of_two_day_budgets_holds_a_plan() -> None:
    store = a_store(tenant=10_000, repository=1000)
    plan = budgeted(store, a_step("a", tokens=1000), a_step("b", "a", tokens=1000))

    plan.report(a_report("a"))

    assert plan.record.held == f"the day budget of {REPO} is used up"


def test_a_decision_that_rests_on_what_another_plan_has_taken_is_stale() -> None:
    store = a_store(tenant=10_000)
    store.quantum = 1000
    plan = budgeted(store, a_step("a", tokens=1000), a_step("b", "a", tokens=1000))
    other = budgeted(store, a_step("a", tokens=10), a_step("b", "a", tokens=1000), plan=2)
    store.give(TENANT, 1000 - left(store))
    late = outcomes.apply(other.begin(Ask(plan_id(2), ["a"])), [a_report("a", metrics={"tokens_used": 10})])
    plan.report(a_report("a", metrics={"tokens_used": 1000}))

    assert late.rests_on == {TENANT: 1000}
    assert store.commit([Write(late)]) == ["stale"]


@pytest.mark.parametrize("seed", range(8))
def test_many_plans_at_once_never_use_more_than_the_day_and_what_was_reported_beyond(seed: int) -> None:
    random = Random(seed)
    store = a_store(tenant=20_000, repository=15_000)
    store.quantum = random.choice([1, 700, 4000])
    plans = [budgeted(store, *some_steps(6, tokens=900), plan=number) for number in range(1, 6)]
    overrun = 0

    for _ in range(60):
        plan = random.choice(plans)
        if plan.active:
            step = random.choice(sorted(plan.active))
            held, used = plan.active[step].tokens, random.randrange(1500)
            overrun += max(0, used - held)
            report = random.choice([a_report, a_failure])
            plan.report(report(step, metrics={"tokens_used": used}))

    total = sum(plan.record.spent["tokens"] + plan.record.reserved["tokens"] for plan in plans)
    assert total <= 15_000 + overrun
    assert any(plan.record.held for plan in plans)


def test_the_log_keeps_what_was_left_of_a_day_where_that_made_a_difference() -> None:
    store = a_store(tenant=1300)
    store.quantum = 5000

    plan = budgeted(store, a_step("a", tokens=1000), a_step("b", tokens=1000))

    told = [said for line in plan.log for said in line["in"] if said[0] == "grants"]
    assert told == [
        ["grants", {TENANT: [0, False]}],
        ["grants", {TENANT: [1300, False]}],
        ["grants", {TENANT: [300, True]}],
    ]
