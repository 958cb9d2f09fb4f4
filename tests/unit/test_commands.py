"""Orders of operators: what each does to a plan, once, and with its reason kept."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.base import RiskLevel
from schemas.command import CommandName, Scope
from schemas.envelope import Problem
from tasks.handlers import commands
from tasks.plan.snapshot import Snapshot
from tests.support.commands import WEEK_MS, an_order, order
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, PLAN, Running, a_failure, a_plan, a_report, a_step, some_steps
from worker.store.plans import Ask, Write
from worker.streams.decode import read_command
from worker.streams.inbox import StreamEntry


def a_risky_plan(**limits: Any) -> Running:
    """A LOW step, then a HIGH one that needs an approval."""
    return Running(a_step("a"), a_step("b", "a", risk=RiskLevel.HIGH), approvals=("HIGH",), **limits)


def test_a_step_at_a_risk_that_needs_approval_waits_until_a_person_approves_it() -> None:
    plan = a_risky_plan()
    plan.report(a_report("a"))
    assert plan.active == {}
    assert "dev.planner.step.approval_requested.v1" in plan.events

    assert order(plan, "approve", "b") == "obeyed"

    assert list(plan.active) == ["b"]
    assert plan.steps["b"].approval == "ada: because"
    plan.report(a_report("b"))
    assert plan.state == "COMPLETED"


def test_an_approved_step_is_not_asked_about_again_when_it_is_retried() -> None:
    plan = a_risky_plan()
    plan.report(a_report("a"))
    order(plan, "approve", "b")

    plan.report(a_failure("b"))

    assert plan.active["b"].attempt == 2


def test_a_plan_whose_first_step_needs_approval_stays_ready() -> None:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), approvals=("HIGH",))
    assert (plan.state, plan.active) == ("READY", {})

    order(plan, "approve", "a")

    assert (plan.state, list(plan.active)) == ("EXECUTING", ["a"])


def test_a_rejected_step_halts_its_plan() -> None:
    plan = a_risky_plan()
    plan.report(a_report("a"))

    assert order(plan, "reject", "b") == "obeyed"

    assert plan.state == "HALTED"
    assert plan.halt["rule"] == "approval_rejected"


def test_a_wait_for_a_person_has_a_deadline_and_stops_the_wall_clock() -> None:
    plan = a_risky_plan(wall_clock_s=600)
    plan.report(a_report("a"))

    plan.store.now += WEEK_MS - 1
    plan.sweep()
    assert plan.state == "EXECUTING"

    plan.store.now += 1
    plan.sweep()
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "approval_deadline")


@pytest.mark.parametrize("name", ["approve", "reject", "skip"])
def test_an_order_that_does_not_fit_is_refused_and_changes_nothing(name: str) -> None:
    plan = Running(a_step("a"))

    assert order(plan, name, "a") == "refused"

    assert list(plan.active) == ["a"]


def test_a_paused_plan_starts_nothing_and_its_wall_clock_stands_still() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), wall_clock_s=600)
    order(plan, "pause")
    plan.report(a_report("a"))
    assert plan.active == {}

    plan.store.now += 10_000_000
    plan.sweep()
    assert plan.state == "EXECUTING"

    order(plan, "resume", order_id="o-2")
    assert list(plan.active) == ["b"]
    plan.store.now += 601_000
    plan.sweep()
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "wall_clock")


@pytest.mark.parametrize("name", ["halt", "cancel"])
def test_a_plan_halts_by_order_with_what_is_in_flight(name: str) -> None:
    plan = Running(a_step("a"), a_step("b"))

    assert order(plan, name) == "obeyed"

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "manual")
    assert set(plan.states.values()) == {"HALTED"}
    assert plan.active == {}


def test_a_skipped_step_counts_as_satisfied() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("c", "b"), max_parallel=1)

    assert order(plan, "skip", "b") == "obeyed"
    plan.report(a_report("a"))
    plan.report(a_report("c"))

    assert plan.states == {"a": "DONE", "b": "SKIPPED", "c": "DONE"}
    assert plan.state == "COMPLETED"


def test_a_budget_can_be_topped_up_and_warns_once_when_it_runs_low() -> None:
    plan = Running(a_step("a", tokens=100), a_step("b", "a", tokens=100), tokens=1000)
    plan.report(a_report("a", metrics={"tokens_used": 850}))
    assert plan.events.count("dev.planner.budget.low.v1") == 1

    assert order(plan, "top_up", value={"tokens": 9000}) == "obeyed"

    assert plan.record.limits["tokens"] == 10_000
    plan.report(a_report("b"))
    assert plan.events.count("dev.planner.budget.low.v1") == 1


@pytest.mark.parametrize(
    "value", [None, {}, {"tokens": -1}, {"tokens": 0}, {"tokens": "9"}, {"tokens": True}, {"max_steps": 5}, [1], True]
)
def test_a_budget_is_never_lowered_nor_another_limit_touched(value: Any) -> None:
    plan = Running(a_step("a"))
    before = plan.record.limits

    assert order(plan, "top_up", value=value) == "refused"

    assert plan.record.limits == before


def test_an_order_is_obeyed_once() -> None:
    plan = Running(a_step("a"))
    order(plan, "top_up", value={"tokens": 5000})
    limits = plan.record.limits

    assert order(plan, "top_up", value={"tokens": 5000}) == "known"

    assert plan.record.limits == limits


def test_orders_to_an_ended_plan_are_refused() -> None:
    plan = Running(a_step("a"))
    plan.report(a_report("a"))
    assert plan.state == "COMPLETED"

    assert order(plan, "halt") == "refused"

    assert plan.state == "COMPLETED"


def test_what_was_ordered_stands_in_the_log_with_who_and_why() -> None:
    plan = Running(a_step("a"))

    order(plan, "pause")

    ((kind, said),) = plan.log[-1]["in"]
    assert (kind, said["command"], said["actor"], said["reason"]) == ("command", "pause", "ada", "because")
    assert codec.loads(codec.dumps(said))["command_id"] == "o-1"


REACHES = {
    "pause": "plan repository tenant queue all",
    "resume": "plan repository tenant queue all",
    "cancel": "plan repository tenant all",
    "halt": "plan repository tenant all",
    "approve": "step",
    "reject": "step",
    "answer": "plan step",
    "skip": "step",
    "tighten": "plan step",
    "top_up": "plan tenant repository",
}


@pytest.mark.parametrize("name", CommandName)
@pytest.mark.parametrize("scope", Scope)
def test_an_order_reaches_as_far_as_the_wire_says_and_no_further(name: CommandName, scope: Scope) -> None:
    data = {"command_id": "c", "command": name, "scope": scope, "plan_id": PLAN, "step_id": "a", "target": "acme"}
    entry = StreamEntry("commands", b"1-0", {b"data": codec.dumps({**data, "actor": "ada", "reason": ""})})

    found = read_command(entry)

    assert isinstance(found, Problem) == (scope.value not in REACHES[name.value].split())
    if isinstance(found, Problem):
        assert found.code == "unsupported_scope"
        assert scope.value in found.detail


@pytest.mark.parametrize(
    ("scope", "missing"),
    [("step", "step_id"), ("plan", "plan_id"), ("tenant", "target"), ("repository", "target"), ("queue", "target")],
)
def test_an_order_that_does_not_name_what_it_is_about_is_none(scope: str, missing: str) -> None:
    name = "skip" if scope == "step" else "pause"
    data = {"command_id": "c", "command": name, "scope": scope, "plan_id": PLAN, "step_id": "a", "target": "acme"}
    del data[missing]
    entry = StreamEntry("commands", b"1-0", {b"data": codec.dumps({**data, "actor": "ada", "reason": ""})})

    found = read_command(entry)

    assert isinstance(found, Problem)
    assert missing in found.detail
    assert [each.pointer for each in found.errors] == [f"/{missing}"]


def test_a_pause_that_has_an_end_lapses_by_itself() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    order(plan, "pause", until=plan.store.now + 3_600_000)
    plan.report(a_report("a"))
    assert plan.active == {}

    plan.store.wait(3_599_999)
    plan.sweep()
    assert plan.active == {}
    plan.store.wait(1)
    plan.sweep()

    assert list(plan.active) == ["b"]
    assert (plan.record.paused, plan.record.paused_until) == ("", 0)


def test_a_pause_that_would_be_over_at_once_is_refused() -> None:
    plan = Running(a_step("a"))

    assert order(plan, "pause", until=plan.store.now) == "refused"

    assert plan.record.paused == ""


def test_an_attempt_in_flight_hears_of_a_pause_and_of_its_end() -> None:
    plan = Running(a_step("a"), a_step("b"))
    plan.store.claim(PLAN, "a")

    order(plan, "pause")
    assert [plan.store.lease(PLAN, step)["action"] for step in "ab"] == ["pause", "pause"]
    order(plan, "resume", order_id="o-2")

    assert [plan.store.lease(PLAN, step)["action"] for step in "ab"] == ["continue", "continue"]


def test_what_an_attempt_did_before_a_pause_counts() -> None:
    plan = Running(a_step("a"))
    order(plan, "pause")

    assert plan.report(a_report("a")) == ["applied"]

    assert plan.state == "COMPLETED"


def test_a_resume_of_what_is_not_paused_is_refused() -> None:
    plan = Running(a_step("a"))

    assert order(plan, "resume") == "refused"


@pytest.mark.parametrize("name", ["halt", "cancel"])
def test_a_plan_that_waits_for_its_first_approval_ends_in_one_commit(name: str) -> None:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), approvals=("HIGH",))
    commits = len(plan.changes)

    assert order(plan, name) == "obeyed"

    assert (plan.state, len(plan.changes)) == ("HALTED", commits + 1)
    assert [move for move in plan.log[-1]["moves"] if not move[0]] == [
        ["", "READY", "EXECUTING"],
        ["", "EXECUTING", "HALTED"],
    ]


def test_an_approval_while_the_plan_is_paused_starts_the_step_once_it_goes_on() -> None:
    plan = a_risky_plan()
    plan.report(a_report("a"))
    order(plan, "pause")

    assert order(plan, "approve", "b", order_id="o-2") == "obeyed"
    assert plan.active == {}
    order(plan, "resume", order_id="o-3")

    assert list(plan.active) == ["b"]


@pytest.mark.parametrize("step", ["b", None])
def test_the_question_whether_a_step_may_start_is_answered_by_yes_or_no(step: str | None) -> None:
    allowed, refused = a_risky_plan(), a_risky_plan()
    for plan in (allowed, refused):
        plan.report(a_report("a"))

    assert order(allowed, "answer", step, value="perhaps") == "refused"
    assert order(allowed, "answer", step, value="yes", order_id="o-2") == "obeyed"
    assert order(refused, "answer", step, value="no") == "obeyed"

    assert (list(allowed.active), allowed.steps["b"].approval) == (["b"], "ada: because")
    assert (refused.state, refused.halt["rule"]) == ("HALTED", "approval_rejected")


def test_an_answer_names_its_step_where_several_are_asked_about() -> None:
    plan = Running(*some_steps(2, risk=RiskLevel.HIGH), approvals=("HIGH",))

    assert order(plan, "answer", value="yes") == "refused"
    assert order(plan, "answer", "nobody", value="yes", order_id="o-2") == "refused"
    assert order(plan, "answer", "s-1", value="yes", order_id="o-3") == "obeyed"

    assert list(plan.active) == ["s-1"]


def test_nothing_can_be_answered_that_was_not_asked() -> None:
    plan = Running(a_step("a"))

    assert order(plan, "answer", value="yes") == "refused"
    assert order(plan, "answer", "a", value="yes", order_id="o-2") == "refused"


def test_a_plan_under_creation_takes_no_orders() -> None:
    store = MemoryStore(PARTITION)
    first, *_ = a_plan(*some_steps(100))
    assert store.commit([Write(first)]) == ["ok"]
    (view,) = store.begin([Ask(PLAN)])
    assert isinstance(view, Snapshot)

    change = commands.apply(view, [an_order("halt")])

    assert [kind for kind, _ in change.events] == ["dev.planner.command.refused.v1"]


def test_orders_of_one_batch_are_obeyed_in_their_turn() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    orders = [an_order("pause"), an_order("resume", order_id="o-2"), an_order("pause", order_id="o-3")]

    change = commands.apply(plan.begin(Ask(PLAN)), orders)

    assert [kind for kind, _ in change.events] == ["dev.planner.command.obeyed.v1"] * 3
    assert change.actions == {"a": "pause"}
