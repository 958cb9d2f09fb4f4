"""How soon a step is tried again."""

from __future__ import annotations

import pytest

from schemas.base import FailureCategory
from tasks.base.policy import BACKOFF_MS
from tasks.policy.starts import QUEUED_MS, SILENT_MS
from tasks.policy.waits import MAX_BACKOFF_MS, backoff
from tests.support.commands import order
from tests.support.plans import PLAN, Running, a_failure, a_report, a_step

SEEDS = [f"seed-{number}" for number in range(200)]


@pytest.mark.parametrize("category", BACKOFF_MS)
def test_a_backoff_is_doubled_with_every_failure_up_to_its_cap(category: str) -> None:
    wholes = [min(MAX_BACKOFF_MS, BACKOFF_MS[category] * 2 ** (nth - 1)) for nth in range(1, 40)]

    for nth, whole in enumerate(wholes, 1):
        found = [backoff(category, nth, seed) for seed in SEEDS[:20]]
        assert all(whole // 2 <= ms < whole for ms in found)
    assert wholes[-1] == MAX_BACKOFF_MS


def test_jitter_spreads_many_over_half_of_the_time_and_is_the_same_for_the_same_seed() -> None:
    found = [backoff("LEASE_EXPIRED", 4, seed) for seed in SEEDS]

    assert len(set(found)) > len(SEEDS) // 2
    assert max(found) - min(found) > 16_000 // 2 * 0.9
    assert found == [backoff("LEASE_EXPIRED", 4, seed) for seed in SEEDS]


@pytest.mark.parametrize("category", sorted(set(FailureCategory) - set(BACKOFF_MS)))
def test_what_waiting_does_not_mend_is_tried_again_at_once(category: str) -> None:
    assert backoff(category, 3, "seed") == 0


@pytest.mark.parametrize("category", BACKOFF_MS)
def test_nobody_waits_for_an_attempt_that_did_not_fail(category: str) -> None:
    assert backoff(category, 0, "seed") == 0


def test_an_attempt_that_nobody_claimed_goes_out_again_at_once() -> None:
    plan = Running(a_step("a"), wall_clock_s=86_400)
    plan.store.wait(QUEUED_MS)

    plan.sweep()

    assert (plan.active["a"].attempt, plan.record.backoffs) == (2, {})


def a_backoff() -> Running:
    """Two steps that want the same file, one of them in backoff after its controller went silent."""
    shared = ["src/shared.py"]
    plan = Running(
        a_step("a", files=shared), a_step("b", files=shared), a_step("c"), max_parallel=2, wall_clock_s=86_400
    )
    assert sorted(plan.active) == ["a", "c"]
    plan.store.claim(PLAN, "a")
    plan.store.wait(SILENT_MS)
    plan.store.claim(PLAN, "c")
    plan.sweep()
    return plan


def test_a_step_in_backoff_holds_no_slot_and_no_file() -> None:
    plan = a_backoff()

    assert list(plan.record.backoffs) == ["a"]
    assert plan.states["a"] == "ACTIVE"
    assert sorted(plan.active) == ["b", "c"]
    assert plan.record.reserved["tokens"] == 2000


def test_a_step_waits_as_long_as_its_backoff_says_and_its_timer_is_set_to_that() -> None:
    plan = a_backoff()
    plan.report(a_report("b"))
    due = plan.record.backoffs["a"]
    assert 1000 <= due - plan.store.now < 2000
    assert plan.record.wake == due

    plan.store.wait(due - plan.store.now - 1)
    plan.sweep()
    assert "a" not in plan.active
    plan.store.wait(1)
    plan.sweep()

    assert plan.active["a"].attempt == 2
    assert plan.record.backoffs == {}


def test_the_same_plan_waits_the_same_time_again() -> None:
    assert a_backoff().record.backoffs == a_backoff().record.backoffs


def test_a_plan_with_nothing_but_a_backoff_goes_on() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    plan.report(a_failure("a", category="FLAKY_TEST"))
    while plan.record.backoffs:
        assert plan.state == "EXECUTING"
        plan.rest()
        for step in sorted(plan.active):
            plan.report(a_report(step))

    while plan.active:
        plan.report(a_report(min(plan.active)))
    assert plan.state == "COMPLETED"


def test_a_halt_ends_a_plan_whose_step_is_in_backoff() -> None:
    plan = a_backoff()

    order(plan, "halt")
    plan.store.wait(MAX_BACKOFF_MS)
    plan.sweep()

    assert plan.state == "HALTED"
    assert plan.active == {}
