"""`migrate` takes a plan in flight to newer rules: what it needs for that, its refusals, and what its log says."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tasks.base.policy_version import POLICY_VERSION, ChangedRule
from tasks.handlers import commands
from tasks.policy import migration
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Result, replay
from tasks.rules.strategy import Question
from tests.support.commands import an_order, order
from tests.support.growing import Script, growing
from tests.support.plans import PLAN, Running, a_check, a_failure, a_report, a_step
from tests.support.replay import export_of

NEWEST = {"policy_version": POLICY_VERSION}
FIRST = 1


def paused(*steps: Any, version: int = FIRST, **limits: Any) -> Running:
    """A plan of an older version whose first step has ended, and of which nothing is in flight."""
    plan = Running(*steps, policy_version=version, **limits)
    order(plan, "pause", order_id="stop")
    return plan


def migrated(plan: Running, version: int = POLICY_VERSION) -> Running:
    """Migrate a plan once its attempts have succeeded, and let it go on."""
    plan.report(*[a_report(step) for step in plan.active])
    assert order(plan, "migrate", value={"policy_version": version}, order_id="newer") == "obeyed"
    order(plan, "resume", order_id="on")
    return plan


def refusal(plan: Running, value: Any) -> str:
    """Have a plan migrated that refuses; returns its reason."""
    before = plan.record.head.policy_version
    plan.obey(an_order("migrate", None, value, order_id="refused"))
    (said,) = [codec.loads(data) for what, data in plan.changes[-1].events if what.endswith("command.refused.v1")]
    assert plan.record.head.policy_version == before
    return str(said["reason"])


def test_every_changed_rule_was_looked_at() -> None:
    assert migration.ROWS.keys() == set(ChangedRule)


def test_a_plan_goes_on_under_the_newest_rules_and_its_log_is_decided_again_alike() -> None:
    plan = migrated(paused(a_step("a"), a_step("b", "a"), a_step("c", "b"), max_growth_kb=10))

    plan.report(a_report("b", growth_kb=-8))  # which made room under the first rules
    plan.report(a_report("c", growth_kb=12))

    assert (plan.record.head.policy_version, plan.halt["rule"]) == (POLICY_VERSION, "file_growth")
    (line,) = [line for line in plan.log if "policy_version" in line.get("around", {})]
    assert (line["around"]["policy_version"], line["in"][0][1]["value"]) == (FIRST, NEWEST)
    found = replay(RecordedPlan.read(export_of(plan.store.held(PLAN))))
    assert (found.result, found.parts) == (Result.EQUAL, ())


def test_the_beginning_of_a_plan_whose_first_line_tells_no_version_is_that_of_before() -> None:
    plan = migrated(paused(a_step("a"), a_step("b", "a")))
    told = codec.loads(export_of(plan.store.held(PLAN)))
    for line in told["log"]:
        for name in ("born", "prev", "by"):
            line.pop(name, None)

    found = replay(RecordedPlan.read(codec.dumps(told)))

    assert (found.result, found.parts) == (Result.EQUAL, ())


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "`value` must be the version alone"),
        ({}, "`value` must be the version alone"),
        ({"policy_version": True}, "`value` must be the version alone"),
        ({"policy_version": "6"}, "`value` must be the version alone"),
        ({**NEWEST, "more": 1}, "`value` must be the version alone"),
        ({"policy_version": 3}, "the plan is at policy version 3 already, and none goes back"),
        ({"policy_version": -1}, "the plan is at policy version 3 already, and none goes back"),
        ({"policy_version": POLICY_VERSION + 1}, f"this worker knows policy versions up to {POLICY_VERSION}"),
        (NEWEST, "attempts are in flight: pause the plan"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(value: Any, why: str) -> None:
    assert refusal(Running(a_step("a"), policy_version=3), value).startswith(why)


def test_an_ended_plan_is_not_migrated() -> None:
    plan = Running(a_step("a"), policy_version=FIRST)
    plan.report(a_report("a"))

    assert refusal(plan, NEWEST) == "the plan has ended"


def test_a_plan_that_asks_before_it_is_made_is_not_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Question("clarify", ("What?",), "## What?")

    plan = growing(monkeypatch, Script(), question=asked, policy_version=FIRST)

    assert refusal(plan, NEWEST).startswith("the plan waits for an answer")


def test_a_version_that_this_worker_does_not_know_leaves_no_line() -> None:
    """A release that knows the version would obey, so that the replay of such a line would come out otherwise."""
    plan = paused(a_step("a"))
    lines, later = len(plan.log), {"policy_version": POLICY_VERSION + 1}

    assert refusal(plan, later) == refusal(plan, later)

    assert len(plan.log) == lines


def test_a_plan_that_unfolds_into_the_queue_of_deliveries_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(), a_step("a"), a_step("b", "a"), policy_version=4)
    order(plan, "pause", order_id="stop")
    plan.report(a_report("a"))
    state = codec.loads(plan.record.strategy_state)
    state["goal"]["queue"] = "deliver"
    plan.store.hash(plan.keys.plan)["strategy_state"] = codec.dumps(state)

    assert "for DELIVER steps alone" in refusal(plan, NEWEST)


def test_room_that_a_smaller_plan_made_is_taken_back() -> None:
    plan = paused(a_step("a"), a_step("b", "a"))
    plan.report(a_report("a", growth_kb=-8))

    assert migrated(plan).record.counters["growth_kb"] == 0


def test_results_of_other_trees_are_no_flips() -> None:
    plan = paused(a_check("t"), a_check("u"), version=2)
    plan.report(a_report("t"), a_failure("u"))
    assert plan.record.counters["flaky"]

    assert "flaky" not in migrated(plan).record.counters


def test_the_end_of_a_plan_that_was_migrated_claims_nothing_about_what_nobody_remembered() -> None:
    plan = migrated(paused(a_step("a"), a_step("b", "a", retries=0), a_step("c", "b")))

    plan.report(a_failure("b"))

    assert "no revision was tried" not in plan.halt["reason"]
    assert plan.halt["rule"] == "cannot_revise"


def test_what_ran_out_of_time_before_is_counted() -> None:
    plan = paused(a_check("t"), a_step("z"), version=4)
    plan.report(a_report("z"), a_failure("t", category="TEST_TIMEOUT"))

    assert migrated(plan).record.counters["timeouts"] == {"t": 1}


def test_nothing_is_known_of_files_that_nobody_asked_about() -> None:
    plan = migrated(paused(a_step("a"), a_step("b", "a"), version=4, base_sha="9f1c2d4", failing=("tests/test_a.py",)))

    assert plan.record.counters["untold"] == 1


def test_an_intermediate_version_is_given_its_own_rows_alone() -> None:
    plan = paused(a_step("a"), a_step("b", "a"))
    plan.report(a_report("a", growth_kb=-8))

    counters = migrated(plan, 2).record.counters

    assert (counters["growth_kb"], "remembers_since" in counters) == (0, False)


def test_a_plan_is_migrated_once() -> None:
    plan = migrated(paused(a_step("a"), a_step("b", "a")))

    assert order(plan, "migrate", value=NEWEST, order_id="newer") == "known"
    assert commands.SCOPES[an_order("migrate").command] == {"plan"}
