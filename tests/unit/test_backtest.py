"""What other rules would have done to a plan: facts where they end it, nothing where they would have gone on."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from schemas.step import PlannedStep
from tasks.base.policy import ATTEMPTS, BUILT_IN, GOALS, GoalRules, Policy
from tasks.base.policy_text import read_policy
from tasks.record.backtest import Backtested, Saved, Tally, Verdict, backtest, backtest_recorded
from tasks.record.creation import CannotReplay
from tasks.record.fold import Fold
from tasks.record.recorded_plan import NoExport, RecordedPlan
from tasks.record.replay import Result, replay
from tests.support.plans import PLAN, Running, a_failure, a_report, a_step
from tests.support.replay import export_of
from worker.render.backtest import header, lines, row

STEPS = (a_step("s-0", retries=3), a_step("s-1", "s-0"))
MINUTE = 60_000


def created(*steps: PlannedStep, **limits: Any) -> Fold:
    return Fold(deepcopy(Running(*steps, **limits).store.held(PLAN)))


def compare(plan: Running, steps: Any = STEPS, **limits: Any) -> Backtested:
    really = created(*steps, **plan.record.limits)
    return backtest(plan.log[len(really.plan.log) :], really, created(*steps, **{**plan.record.limits, **limits}))


def fail(plan: Running, times: int, category: str = "TEST_REGRESSION") -> None:
    for number in range(times):
        plan.store.wait(MINUTE)
        plan.sweep()
        trace = "".join(chr(ord("a") + number))
        plan.report(a_failure("s-0", category=category, error_message=f"{trace}" * 9, metrics={"tokens_used": 500}))


def test_a_plan_that_ends_alike_is_the_same() -> None:
    plan = Running(*STEPS)
    plan.report(a_report("s-0"))
    plan.report(a_report("s-1"))

    found = compare(plan, consecutive_failures=1)

    assert found.verdict is Verdict.SAME
    assert not found.assumes
    assert found.would == found.really
    assert found.really.state == "COMPLETED"


def test_a_halt_before_the_end_is_a_fact() -> None:
    plan = Running(*STEPS)
    fail(plan, 2)
    plan.store.wait(MINUTE)
    plan.sweep()
    for step in STEPS:
        plan.report(a_report(step.step_id, metrics={"tokens_used": 700}))
    assert plan.state == "COMPLETED"

    found = compare(plan, consecutive_failures=2)

    assert (found.verdict, found.assumes) == (Verdict.ENDED_EARLIER, False)
    assert found.would
    assert (found.would.state, found.would.rule) == ("HALTED", "consecutive_failures")
    assert found.saved == Saved(tokens=1400, ms=MINUTE, successes_lost=1, steps_lost=2)


def test_what_was_in_flight_at_the_end_is_booked() -> None:
    steps = (a_step("s-0", retries=3), a_step("s-1", tokens=4000))
    plan = Running(*steps)
    fail(plan, 1)
    plan.report(a_report("s-1", metrics={"tokens_used": 3000}))
    plan.report(a_report("s-0", metrics={"tokens_used": 500}))

    found = compare(plan, steps, consecutive_failures=1)

    assert found.verdict is Verdict.ENDED_EARLIER
    assert found.saved
    assert found.saved.tokens == -500


def test_where_the_plan_really_ended_the_rest_is_unknown() -> None:
    plan = Running(*STEPS, consecutive_failures=2, tokens=10_000)
    fail(plan, 2)
    assert plan.state == "HALTED"

    found = compare(plan, consecutive_failures=3)

    assert (found.verdict, found.would, found.saved) == (Verdict.GOES_ON, None, None)


def test_a_step_that_would_start_later_is_another_decision() -> None:
    steps = (a_step("s-0"), a_step("s-1"), a_step("s-2"))
    plan = Running(*steps, max_parallel=2, wall_clock_s=None)
    plan.report(a_report("s-0"))
    plan.report(a_report("s-1"))
    plan.report(a_report("s-2"))

    found = compare(plan, steps, max_parallel=3)

    assert (found.verdict, found.saved, found.line) == (Verdict.DECIDED_OTHERWISE, None, 1)


def test_a_wall_clock_ends_the_plan_between_two_lines() -> None:
    plan = Running(*STEPS)
    plan.store.wait(30 * MINUTE)
    plan.report(a_report("s-0"))
    plan.report(a_report("s-1"))

    found = compare(plan, wall_clock_s=600)

    assert found.would
    assert (found.would.rule, found.would.done) == ("wall_clock", 0)
    assert found.saved
    assert (found.verdict, found.assumes) == (Verdict.ENDED_EARLIER, False)
    assert (found.saved.ms, found.saved.steps_lost) == (20 * MINUTE, 2)


def test_a_sweep_that_came_late_comes_no_sooner_under_other_rules() -> None:
    plan = Running(*STEPS, wall_clock_s=600)
    plan.store.wait(30 * MINUTE)
    plan.report(a_report("s-0"))
    plan.report(a_report("s-1"))

    assert compare(plan, wall_clock_s=600).verdict is Verdict.SAME
    assert compare(plan, wall_clock_s=900).verdict is Verdict.SAME


def test_time_that_an_outage_gives_back_ends_nothing() -> None:
    plan = Running(*STEPS)
    plan.outage(30 * MINUTE)
    plan.look()
    plan.report(a_report("s-0"))
    plan.report(a_report("s-1"))

    assert compare(plan, wall_clock_s=600).verdict is Verdict.SAME


def test_attempts_that_would_have_been_told_less_are_an_assumption() -> None:
    plan = Running(*STEPS)
    plan.report(a_report("s-0", metrics={"tokens_used": 500}))
    plan.report(a_report("s-1", metrics={"tokens_used": 100}))

    assert compare(plan, tokens=1200).assumes


def test_a_log_that_is_decided_otherwise_today_is_compared_with_nothing() -> None:
    plan = Running(*STEPS)
    plan.report(a_report("s-0"))
    really = created(*STEPS)
    changed = [{**line, "moves": line["moves"][1:]} for line in plan.log[len(really.plan.log) :]]

    with pytest.raises(CannotReplay, match="line 2"):
        backtest(changed, really, created(*STEPS))


def under(policy: Policy, plan: Running) -> Backtested:
    return backtest_recorded(RecordedPlan.read(export_of(plan.store.held(PLAN))), policy)


def a_policy(retries: int = 3, **most: int) -> Policy:
    attempts = {risk: replace(row, retries=min(row.retries, retries)) for risk, row in ATTEMPTS.items()}
    return Policy(goals=(*GOALS, GoalRules(most=most)), attempts=attempts)


def test_an_export_is_decided_again_under_a_policy() -> None:
    plan = Running(*STEPS)
    fail(plan, 2)
    for step in STEPS:
        plan.report(a_report(step.step_id, metrics={"tokens_used": 700}))

    assert under(BUILT_IN, plan).verdict is Verdict.SAME
    halted, given_up = under(a_policy(consecutive_failures=2), plan), under(a_policy(retries=1), plan)

    assert [(one.verdict, one.assumes) for one in (halted, given_up)] == [(Verdict.ENDED_EARLIER, False)] * 2
    assert [one.would.rule for one in (halted, given_up) if one.would] == ["consecutive_failures", "cannot_revise"]
    assert halted.document()["saved"]["tokens"] == 1400


def test_more_steps_than_a_policy_allows_would_not_have_been_planned_so() -> None:
    plan = Running(*STEPS)
    plan.report(a_report("s-0"))
    plan.report(a_report("s-1"))

    found = under(a_policy(max_steps=1), plan)

    assert (found.verdict, found.saved, found.line) == (Verdict.DECIDED_OTHERWISE, None, 1)


def test_nothing_that_stands_in_an_export_breaks_a_backtest() -> None:
    plan = Running(*STEPS)
    fail(plan, 1)
    plan.report(a_report("s-0"))
    data = export_of(plan.store.held(PLAN))
    chance = Random(7)
    for _ in range(300):
        altered = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            altered[chance.randrange(len(altered))] = chance.choice(b'0129-"[]{},:eax ')
        with suppress(CannotReplay, NoExport):
            backtest_recorded(RecordedPlan.read(bytes(altered)), a_policy(consecutive_failures=1))


def test_the_sum_counts_what_is_known() -> None:
    halted, done = Running(*STEPS, consecutive_failures=2), Running(*STEPS)
    fail(halted, 2)
    fail(done, 1)
    for step in STEPS:
        done.report(a_report(step.step_id))
    tally = Tally()
    tally.add(compare(halted, consecutive_failures=3))
    tally.add(compare(done, consecutive_failures=1))
    tally.add(compare(done))

    told = tally.document()

    assert (told["verdicts"]["same"], told["verdicts"]["ended_earlier"], told["verdicts"]["goes_on"]) == (1, 1, 1)
    assert told["ended_by"] == {"consecutive_failures": 1}
    assert (tally.changed, told["saved"]["successes_lost"]) == (2, 1)
    assert max(len(line.plain) for line in (header(), row(compare(halted, consecutive_failures=3)))) <= 72
    assert any("not ended where they were" in line.plain for line in lines(tally))


def test_a_plan_is_decided_again_under_the_policy_that_it_was_made_under() -> None:
    text = b"[most]\nconsecutive_failures = 2\n"
    plan = Running(*STEPS, policy=read_policy(text))
    fail(plan, 2)
    assert plan.state == "HALTED"
    held = plan.store.held(PLAN)
    recorded = RecordedPlan.read(export_of(held, policy=text.decode()))

    assert replay(recorded).result is Result.EQUAL
    assert backtest_recorded(recorded, BUILT_IN).verdict is Verdict.GOES_ON
    assert replay(RecordedPlan.read(export_of(held))).result is Result.NOT_REPLAYED
    with pytest.raises(CannotReplay, match="does not have the text"):
        under(BUILT_IN, plan)
