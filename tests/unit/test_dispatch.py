"""Which steps start, in which order, and what their controllers are told."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from schemas.step import StepSpec
from schemas.times import rfc3339
from tasks.handlers import outcomes
from tasks.policy.starts import QUEUED_MS, RUNNING_MARGIN_MS, SILENT_MS
from tests.support.plans import PARTITION, PLAN, PYTEST, Running, a_failure, a_report, a_step, some_steps
from worker.store.plans import Ask


@pytest.mark.parametrize("slots", [1, 2, 4, 64])
def test_no_more_attempts_are_in_flight_than_there_are_slots(slots: int) -> None:
    plan = Running(*some_steps(6), max_parallel=slots)

    assert len(plan.active) == min(6, slots)


def test_a_slot_that_is_free_again_is_used() -> None:
    plan = Running(*some_steps(3), max_parallel=1)

    plan.report(a_report("s-0"))

    assert list(plan.active) == ["s-1"]


def test_ready_steps_start_in_the_order_of_the_plan() -> None:
    plan = Running(*[a_step(name) for name in ("z", "m", "a", "k")], max_parallel=1)
    order = list(plan.active)

    while plan.active:
        plan.report(a_report(order[-1]))
        order += plan.active

    assert order == ["z", "m", "a", "k"]


def test_two_steps_with_a_file_in_common_are_never_in_flight_together() -> None:
    files = {"a": ["1", "2"], "b": ["2", "3"], "c": ["3"], "d": ["4"], "e": ["1", "4"]}
    plan = Running(*[a_step(name, files=paths) for name, paths in files.items()], max_parallel=5)
    together = [set(plan.active)]

    while plan.active:
        plan.report(a_report(next(iter(plan.active))))
        together.append(set(plan.active))

    pairs = {pair for flight in together for pair in combinations(sorted(flight), 2)}
    assert not [pair for pair in pairs if set(files[pair[0]]) & set(files[pair[1]])]
    assert together[0] == {"a", "c", "d"}
    assert plan.state == "COMPLETED"


def test_a_later_step_passes_one_whose_files_are_taken() -> None:
    plan = Running(a_step("a", files=["x"]), a_step("b", files=["x"]), a_step("c", files=["y"]), max_parallel=2)

    assert set(plan.active) == {"a", "c"}


def test_a_free_step_is_not_held_up_by_many_whose_file_is_taken() -> None:
    plan = Running(*some_steps(12, files=["x"]), a_step("y"), a_step("z"), max_parallel=2)

    plan.report(a_report("y"))

    assert set(plan.active) == {"s-0", "z"}


def test_a_failed_step_goes_out_again_through_the_same_checks() -> None:
    plan = Running(a_step("a"), a_step("b"), max_parallel=1)

    plan.report(a_failure("a"))

    assert list(plan.active) == ["a"]
    assert plan.active["a"].attempt == 2
    assert plan.events.count("dev.planner.step.restarted.v1") == 1


def test_nothing_starts_while_the_plan_is_paused() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    view = plan.begin(Ask(PLAN, ["a"]))
    view.record.paused = "operator"

    change = outcomes.apply(view, [a_report("a")])

    assert change.dispatches == []
    assert change.ready_add == {"b": 1}
    assert not change.ends


@pytest.mark.parametrize(
    ("limits", "tokens", "cycles", "started"),
    [
        ({"tokens": 2500}, 1000, 0, 3),  # the third holds the rest
        ({"tokens": 2000}, 1000, 0, 2),
        ({"patch_cycles": 3}, 10, 2, 2),
        ({"patch_cycles": 2}, 10, 1, 2),
        ({"tokens": 1000}, 0, 0, 5),  # an attempt that is expected to use nothing
    ],
)
def test_no_step_starts_without_budget(limits: dict[str, int], tokens: int, cycles: int, started: int) -> None:
    plan = Running(*some_steps(5, tokens=tokens, cycles=cycles), max_parallel=5, **limits)

    assert len(plan.active) == started
    assert sum(attempt.tokens for attempt in plan.active.values()) <= limits.get("tokens", 10**8)


def test_the_spec_says_all_that_the_wire_promises() -> None:
    plan = Running(a_step("a", tools=(PYTEST,), tokens=700), tokens=1000)

    (spec,) = map(StepSpec.model_validate, plan.specs)

    now = plan.store.now
    assert (spec.step_id, spec.plan_id, spec.attempt, spec.verify_tools) == ("a", PLAN, 1, (PYTEST,))
    assert (spec.limits.tokens, spec.limits.patch_cycles, spec.limits.max_diff_lines) == (700, 1, 200)
    assert spec.budget_remaining == 0.3
    assert spec.lease_key == f"{PARTITION.tag}lease:{PLAN}:a"
    assert spec.reply_to == PARTITION.outcomes
    assert spec.deadline == rfc3339(now + QUEUED_MS)
    assert list(plan.specs[0])[:7] == [
        "step_id",
        "title",
        "intent",
        "allowed_files",
        "verify",
        "risk_level",
        "controller_task_spec",
    ]


def test_a_verification_longer_than_the_queue_lasts_moves_the_deadline() -> None:
    slow = PYTEST.model_copy(update={"timeout_s": 7200})

    plan = Running(a_step("a", tools=(slow,)))

    assert plan.active["a"].deadline == plan.store.now + 7_200_000 + RUNNING_MARGIN_MS


def test_the_next_attempt_is_told_what_the_last_one_ran_into() -> None:
    plan = Running(a_step("a"))
    evidence: dict[str, Any] = {"category": "TEST_REGRESSION", "top_failing_tests": ["t"], "stack_trace_head": "boom"}

    plan.report(a_report("a", success=False, failure_evidence=evidence))

    (spec,) = plan.specs
    told = {"category": "TEST_REGRESSION", "failing_tests": ["t"], "trace": "boom", "suggestion": None}
    assert spec["context"]["previous_failure"] == told


def test_every_attempt_has_a_lease_of_its_own_that_only_the_seed_tells() -> None:
    plan, again = Running(a_step("a")), Running(a_step("a"))
    first = plan.active["a"].lease
    plan.report(a_failure("a"))

    assert plan.active["a"].lease != first
    assert again.active["a"].lease == first


def test_a_start_sets_the_clock_that_finds_a_silent_controller() -> None:
    plan = Running(a_step("a"))

    assert plan.store.hash(PARTITION.timers) == {PLAN: plan.store.now + SILENT_MS}


@pytest.mark.parametrize("slots", [1, 4, 64])
def test_a_large_plan_fills_its_slots_at_once(slots: int) -> None:
    plan = Running(*some_steps(200), max_parallel=slots)

    assert len(plan.active) == slots
