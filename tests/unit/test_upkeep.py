"""The clocks: of attempts that nobody claims, that go silent or run too long, and of the plan itself."""

from __future__ import annotations

import pytest

from schemas.base import RiskLevel
from schemas.step import JudgedBy
from schemas.stored import Attempt
from schemas.times import rfc3339
from tasks.base.errors import NeedsSteps
from tasks.handlers import outcomes, upkeep
from tasks.handlers.upkeep import UNAPPLIED_MS
from tasks.plan.snapshot import Clocks, Step
from tasks.plan.unit_of_work import REMIND_MS
from tasks.policy.starts import LONGEST_SILENT_MS, QUEUED_MS, RUNNING_MARGIN_MS, SILENT_MS
from tests.support.commands import an_order, order
from tests.support.plans import (
    PARTITION,
    PLAN,
    PYTEST,
    Running,
    a_failure,
    a_report,
    a_step,
    clocks,
    some_steps,
    wait_sweeping,
)
from worker.store.plans import Ask, Write

DAY_S = 86_400
HOUR_MS = 3_600_000
PYTEST_MS = 1000 * PYTEST.timeout_s


def a_running(*steps: object, **limits: int) -> Running:
    """A plan whose wall clock does not matter."""
    return Running(*steps, **{"wall_clock_s": DAY_S, **limits})  # type: ignore[arg-type]


def test_an_attempt_that_nobody_claims_comes_back_after_its_deadline() -> None:
    plan = a_running(a_step("a"))

    wait_sweeping(plan, QUEUED_MS - 10_000)
    before = plan.active["a"].attempt
    wait_sweeping(plan, 10_000)

    assert (before, plan.active["a"].attempt) == (1, 2)
    assert (plan.steps["a"].previous or {})["category"] == "LEASE_EXPIRED"


def test_an_attempt_that_nobody_claimed_is_not_used_up_and_costs_nothing() -> None:
    plan = a_running(a_step("a", retries=0))

    for _ in range(3):
        wait_sweeping(plan, QUEUED_MS)

    assert plan.steps["a"].failures == 0
    assert plan.active["a"].attempt == 4
    assert plan.record.spent["tokens"] == 0
    assert plan.record.counters.lease_deaths == 0


def test_a_controller_that_goes_silent_loses_its_attempt_which_is_booked_in_full() -> None:
    plan = a_running(a_step("a"))
    plan.store.claim(PLAN, "a")

    wait_sweeping(plan, SILENT_MS)

    assert (plan.active["a"].attempt, plan.steps["a"].failures) == (2, 1)
    assert plan.record.spent["tokens"] == 1000
    assert plan.record.counters.lease_deaths == 1
    assert plan.record.counters.consecutive == 0
    assert "silent" in (plan.steps["a"].previous or {})["trace"]


@pytest.mark.parametrize("ttl_s", [60, 300, 440])
def test_a_controller_is_silent_for_as_long_as_it_asked_when_it_claimed(ttl_s: int) -> None:
    plan = a_running(a_step("a"))
    plan.store.claim(PLAN, "a", ttl_s=ttl_s)
    wait_sweeping(plan, 1000 * ttl_s - 10_000)
    plan.store.claim(PLAN, "a")  # a renewal keeps what the claim asked for

    wait_sweeping(plan, 1000 * ttl_s - 10_000)
    before = plan.active["a"].attempt
    wait_sweeping(plan, 10_000)

    assert (before, plan.active["a"].attempt) == (1, 2)
    assert "silent" in (plan.steps["a"].previous or {})["trace"]
    plan.store.claim(PLAN, "a")
    wait_sweeping(plan, SILENT_MS)
    assert plan.active["a"].attempt == 3  # another attempt is another claim


@pytest.mark.parametrize(("told_ms", "lasts_ms"), [(1, SILENT_MS), (10**14, LONGEST_SILENT_MS)])
def test_whatever_stands_in_a_lease_its_time_has_bounds(told_ms: int, lasts_ms: int) -> None:
    plan = a_running(a_step("a", tools=(PYTEST,)))
    plan.store.claim(PLAN, "a")
    plan.store.lease(PLAN, "a")["ttl"] = told_ms

    wait_sweeping(plan, lasts_ms - 10_000)
    before = plan.active["a"].attempt
    wait_sweeping(plan, 10_000)

    assert (before, plan.active["a"].attempt) == (1, 2)


def test_a_controller_that_claims_late_and_dies_is_found_as_soon() -> None:
    plan = a_running(a_step("a"))
    wait_sweeping(plan, 600_000)
    plan.store.claim(PLAN, "a")

    wait_sweeping(plan, 2 * SILENT_MS)

    assert plan.active["a"].attempt == 2


def test_a_controller_that_renews_its_lease_keeps_its_attempt() -> None:
    plan = a_running(a_step("a"))
    plan.store.claim(PLAN, "a")

    wait_sweeping(plan, 10 * SILENT_MS, renewing=("a",))

    assert (plan.active["a"].attempt, plan.steps["a"].failures) == (1, 0)


@pytest.mark.parametrize(("tools", "allowed_ms"), [((), 0), ((PYTEST,), PYTEST_MS), ((PYTEST, PYTEST), 2 * PYTEST_MS)])
def test_an_attempt_may_run_as_long_as_its_verification_and_a_margin(tools: tuple[()], allowed_ms: int) -> None:
    plan = a_running(a_step("a", tools=tools))
    plan.store.claim(PLAN, "a")

    wait_sweeping(plan, RUNNING_MARGIN_MS + allowed_ms - 10_000, renewing=("a",))
    before = plan.active["a"].attempt
    wait_sweeping(plan, 10_000, renewing=("a",))

    assert (before, plan.active["a"].attempt) == (1, 2)
    assert "past its time" in (plan.steps["a"].previous or {})["trace"]


def test_a_step_that_is_judged_once_more_may_run_for_each_of_its_runs() -> None:
    judged_by = JudgedBy(base=True, holdout=f"sha256:{0:064x}")
    plan = a_running(a_step("a", tools=(PYTEST,)).model_copy(update={"judged_by": judged_by}))
    plan.store.claim(PLAN, "a")

    wait_sweeping(plan, RUNNING_MARGIN_MS + 5 * PYTEST_MS - 10_000, renewing=("a",))
    before = plan.active["a"].attempt
    wait_sweeping(plan, 10_000, renewing=("a",))

    assert (before, plan.active["a"].attempt) == (1, 2)


def test_a_step_whose_controllers_keep_dying_fails() -> None:
    plan = a_running(a_step("a", retries=1), a_step("b", "a"))

    for _ in range(2):
        plan.store.claim(PLAN, "a")
        wait_sweeping(plan, SILENT_MS)

    assert plan.states == {"a": "FAILED", "b": "SKIPPED"}
    assert plan.state == "HALTED"


def test_one_attempt_expires_and_its_sibling_goes_on() -> None:
    plan = a_running(a_step("a"), a_step("b"))
    plan.store.claim(PLAN, "a")
    plan.store.claim(PLAN, "b")

    wait_sweeping(plan, SILENT_MS, renewing=("b",))

    assert {step: attempt.attempt for step, attempt in plan.active.items()} == {"a": 2, "b": 1}


def test_an_outcome_of_an_expired_attempt_is_late() -> None:
    plan = a_running(a_step("a"))
    lease = plan.active["a"].lease
    plan.store.claim(PLAN, "a")
    wait_sweeping(plan, SILENT_MS)

    assert plan.report(a_report("a", 1, lease)) == ["late"]
    assert plan.active["a"].attempt == 2


def test_a_timer_that_comes_too_early_is_set_again_and_changes_nothing_else() -> None:
    plan = a_running(a_step("a"))
    before = (plan.states, plan.active, plan.log)
    plan.store.wait(SILENT_MS)

    plan.sweep()

    assert (plan.states, plan.active, plan.log) == before
    assert plan.store.hash(PARTITION.timers) == {PLAN: plan.store.now + SILENT_MS}


def test_a_running_plan_always_has_a_timer_ahead() -> None:
    plan = a_running(a_step("a"), a_step("b", "a"), a_step("c", "b"))

    while plan.active:
        assert plan.store.hash(PARTITION.timers)[PLAN] > plan.store.now
        plan.report(a_report(min(plan.active)))
        plan.sweep()

    assert clocks(plan.store) == {}


def test_a_plan_out_of_time_halts_with_its_attempts_in_flight() -> None:
    plan = Running(*some_steps(3), a_step("z", "s-0"), wall_clock_s=60, max_parallel=2)
    plan.store.wait(60_000)

    plan.sweep()

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "wall_clock")
    assert plan.states == {"s-0": "HALTED", "s-1": "HALTED", "s-2": "PENDING", "z": "BLOCKED"}
    assert plan.active == {}
    assert plan.specs == []
    assert not any(plan.record.reserved.values())
    assert clocks(plan.store) == {}


def test_a_wall_clock_between_two_looks_is_met_to_the_second() -> None:
    plan = Running(a_step("a"), wall_clock_s=90)

    wait_sweeping(plan, SILENT_MS)
    timer = plan.store.hash(PARTITION.timers)[PLAN]
    wait_sweeping(plan, 30_000)

    assert timer == plan.store.now
    assert plan.halt["rule"] == "wall_clock"


def test_a_plan_has_all_of_its_time() -> None:
    plan = Running(a_step("a"), wall_clock_s=60)
    plan.store.wait(59_999)

    plan.sweep()

    assert plan.state == "EXECUTING"


def test_a_halt_says_which_limit_was_met_and_when_the_clock_started() -> None:
    plan = Running(a_step("a"), wall_clock_s=60)
    evidence = {"limit_s": 60, "ready_at": rfc3339(plan.store.now)}
    plan.store.wait(60_000)

    plan.sweep()

    assert evidence.items() <= plan.halt["evidence"].items()


def test_nothing_is_handed_out_after_the_halt() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), wall_clock_s=60)
    lease = plan.active["a"].lease
    plan.store.wait(60_000)
    plan.sweep()

    assert plan.report(a_report("a", 1, lease), a_failure("b", 1)) == ["late", "late"]
    assert plan.specs == []
    assert plan.states["b"] == "BLOCKED"


def test_a_slice_without_the_steps_in_flight_is_sent_back() -> None:
    plan = a_running(*some_steps(3), max_parallel=2)

    with pytest.raises(NeedsSteps) as missing:
        upkeep.apply(plan.begin(Ask(PLAN, ["s-1"], leases=True)))

    assert missing.value.step_ids == {"s-0"}


def test_a_look_at_a_plan_that_is_over_only_takes_its_timer_away() -> None:
    plan = Running(a_step("a"))
    plan.report(a_report("a"))

    change = upkeep.apply(plan.begin(Ask(PLAN)))

    assert (change.changed, change.wake, change.dispatches) == (False, 0, [])


def test_work_that_a_dead_worker_left_over_goes_on() -> None:
    plan = a_running(a_step("root"), *some_steps(100, "root"), max_parallel=1)
    first = outcomes.apply(plan.begin(Ask(PLAN, ["root"])), [a_report("root")])
    plan.store.commit([Write(first)])  # and the worker dies
    left = list(plan.states.values()).count("BLOCKED")

    plan.store.wait(1000)
    plan.sweep()

    assert (first.more, left) == (True, 36)
    assert "BLOCKED" not in plan.states.values()


GAP_MS = 300_000


def after_an_outage(plan: Running, ms: int, down: int | None = None) -> Clocks:
    """Nobody sweeps for a while; returns what the first sweep after it knows."""
    plan.store.wait(ms)
    return Clocks(grace=plan.store.now, down=ms if down is None else down)


@pytest.mark.parametrize("ttl_s", [60, 300])
def test_after_a_gap_in_sweeping_every_lease_has_its_full_time_again(ttl_s: int) -> None:
    plan = a_running(a_step("a"))
    plan.store.claim(PLAN, "a", ttl_s=ttl_s)
    clocks = after_an_outage(plan, GAP_MS)

    plan.look(clocks)
    assert plan.active["a"].attempt == 1
    plan.store.wait(1000 * ttl_s - 1)
    plan.look(clocks)
    assert plan.active["a"].attempt == 1
    plan.store.wait(1)
    plan.look(clocks)

    assert plan.steps["a"].failures == 1


def test_an_attempt_does_not_expire_while_its_outcome_may_wait_to_be_applied() -> None:
    plan = a_running(a_step("a"))
    plan.store.claim(PLAN, "a")
    due = plan.store.now + SILENT_MS
    plan.store.wait(SILENT_MS)

    plan.look(Clocks(oldest=due))
    assert plan.active["a"].attempt == 1
    assert plan.record.wake == plan.store.now + UNAPPLIED_MS
    plan.store.wait(UNAPPLIED_MS)
    plan.look(Clocks(oldest=due + 1))  # what came after it was over proves nothing

    assert plan.steps["a"].failures == 1


def test_an_outage_is_given_back_to_the_wall_clock_once() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), wall_clock_s=600)
    clocks = after_an_outage(plan, GAP_MS)
    plan.look(clocks)
    plan.look(clocks)

    plan.store.wait(600_000 - 1)
    plan.store.claim(PLAN, "a")
    plan.look(clocks)
    assert plan.state == "EXECUTING"
    plan.store.wait(1)
    plan.look(clocks)

    assert plan.halt["rule"] == "wall_clock"


def ends_after(plan: Running) -> int:
    """How long, ms, until the wall clock of a plan runs out."""
    times = plan.record.times
    return times["ready"] + 1000 * 600 + times.get("lost", 0) - plan.store.now


def test_an_outage_during_a_pause_is_given_back_once() -> None:
    plan = Running(a_step("a"), wall_clock_s=600)
    plan.store.wait(100_000)
    plan.obey(an_order("pause"))
    clocks = after_an_outage(plan, GAP_MS)
    plan.look(clocks)
    plan.store.wait(1000)
    plan.obey(an_order("resume", order_id="o-2"))

    assert ends_after(plan) == 500_000


def test_an_outage_during_a_pause_that_ends_before_the_first_sweep_is_given_back_once() -> None:
    plan = Running(a_step("a"), wall_clock_s=600)
    plan.store.wait(100_000)
    plan.obey(an_order("pause"))
    clocks = after_an_outage(plan, GAP_MS)
    plan.obey(an_order("resume", order_id="o-2"))
    plan.look(clocks)

    assert ends_after(plan) == 500_000


def test_an_outage_before_a_pause_is_given_back_beside_it() -> None:
    plan = Running(a_step("a"), wall_clock_s=600)
    plan.store.wait(100_000)
    clocks = after_an_outage(plan, GAP_MS)
    plan.obey(an_order("pause"))
    plan.look(clocks)
    plan.store.wait(50_000)
    plan.obey(an_order("resume", order_id="o-2"))

    assert ends_after(plan) == 500_000


def test_an_outage_from_before_a_plan_was_made_gives_it_nothing() -> None:
    plan = Running(a_step("a"), wall_clock_s=600)
    plan.look(Clocks(grace=plan.store.now, down=0))

    assert "lost" not in plan.record.times


@pytest.mark.parametrize("stop", ["pause", "outage"])
def test_an_attempt_gets_no_time_for_what_stood_still_before_it_began(stop: str) -> None:
    plan = Running(a_step("a"), a_step("b", "a"), wall_clock_s=86_400)
    if stop == "pause":
        order(plan, "pause", order_id="o-1")
        plan.report(a_report("a"))
        plan.store.wait(10 * HOUR_MS)
        order(plan, "resume", order_id="o-2")
    else:
        plan.outage(10 * HOUR_MS)
        plan.report(a_report("a"))
    assert plan.active["b"].attempt == 1

    for _ in range(RUNNING_MARGIN_MS // 30_000):
        plan.store.claim(PLAN, "b")
        plan.store.wait(30_000)
        plan.look()

    assert plan.active.get("b") is None or plan.active["b"].attempt == 2


def test_an_attempt_gets_back_the_time_of_a_pause_within_it() -> None:
    plan = Running(a_step("a"), wall_clock_s=86_400)
    plan.store.claim(PLAN, "a")
    order(plan, "pause", order_id="o-1")
    for _ in range(120):
        plan.store.wait(30_000)
        plan.store.claim(PLAN, "a")
        plan.look()
    order(plan, "resume", order_id="o-2")
    plan.look()

    assert plan.active["a"].attempt == 1


def test_a_record_of_an_attempt_from_before_pauses_were_counted_is_read() -> None:
    found = Attempt.decode(b'7-0 [1,"lease","default",["a.py"],10,1,5,9]')

    assert (found.entry, found.deadline, found.lost) == ("7-0", 9, 0)
    assert Attempt.decode(b"7-0 " + found.encode()) == found


def test_a_look_that_reads_further_has_a_reminder_where_nothing_is_in_flight() -> None:
    plan = Running(*some_steps(12, risk=RiskLevel.HIGH), approvals=("HIGH",), max_parallel=1)
    view = plan.begin(Ask(PLAN))
    view.record.wake = 0
    view.ready, view.ready_beyond = ["s-11"], True  # it asks for its approval; the next look reads what is behind it
    view.steps = {"s-11": Step("s-11", plan.store.hash(plan.keys.steps)["s-11"], plan.steps["s-11"], texts=plan.texts)}
    view.steps["s-11"].status.approval = ""

    change = outcomes.apply(view, ())

    assert (change.wider, change.dispatches) == (True, [])
    assert change.wake == plan.store.now + REMIND_MS
