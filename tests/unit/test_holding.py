"""Plans that are held, released or ended by what is wider than they are."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.times import rfc3339
from tasks.handlers import outcomes, upkeep
from tasks.handlers.bulk_commands import lift, record
from tasks.policy.waits import MEMORY_MS
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, Running, a_report, a_step, plan_id, some_steps, wait_sweeping
from tests.support.surroundings import a_wide_order
from worker.store.plans import Ask, Write

HOUR_MS = 3_600_000


def stand(store: MemoryStore, name: str, scope: str = "tenant", target: str | None = "acme", **more: Any) -> None:
    """Let an order stand; plans hear of it when they are looked at next."""
    store.hash(PARTITION.scopes).update(record(a_wide_order(name, scope, target, **more), store.now, {}))


def lift_scope(store: MemoryStore, scope: str = "tenant", target: str | None = "acme") -> None:
    for name in lift(a_wide_order("resume", scope, target), {}):
        store.hash(PARTITION.scopes).pop(name, None)


def of_acme(*steps: Any, store: MemoryStore | None = None, plan: int = 1, **limits: Any) -> Running:
    return Running(*steps, store=store, plan=plan_id(plan), tenant="acme", repo="acme/shop", **limits)


@pytest.mark.parametrize(("scope", "target"), [("all", None), ("tenant", "acme"), ("repository", "acme/shop")])
def test_a_pause_of_any_width_holds_a_plan_until_it_is_lifted(scope: str, target: str | None) -> None:
    plan = of_acme(a_step("a"), a_step("b", "a"))
    stand(plan.store, "pause", scope, target)
    plan.report(a_report("a"))
    assert plan.active == {}
    assert plan.record.held.startswith(f"pause of {scope}")
    assert plan.record.held.endswith("by ada: why")

    lift_scope(plan.store, scope, target)
    plan.look()

    assert list(plan.active) == ["b"]
    assert plan.record.held == ""
    assert [kind.split(".")[3] for kind in plan.events if kind.split(".")[2] == "plan"][-2:] == ["held", "released"]


def test_a_pause_of_others_does_not_hold_a_plan() -> None:
    plan = of_acme(a_step("a"), a_step("b", "a"))
    stand(plan.store, "pause", target="globex")

    plan.report(a_report("a"))

    assert list(plan.active) == ["b"]


def test_a_plan_yet_to_come_is_held_from_its_first_moment() -> None:
    store = MemoryStore(PARTITION)
    stand(store, "pause")

    plan = of_acme(a_step("a"), store=store)

    assert (plan.state, plan.active) == ("READY", {})
    lift_scope(store)
    plan.look()
    assert (plan.state, list(plan.active)) == ("EXECUTING", ["a"])


@pytest.mark.parametrize("steps", [1, 100])
def test_a_plan_yet_to_come_is_halted_before_its_first_step(steps: int) -> None:
    store = MemoryStore(PARTITION)
    stand(store, "halt")

    plan = of_acme(*some_steps(steps), store=store)

    assert (plan.state, plan.halt["rule"], plan.specs) == ("HALTED", "manual", [])
    assert plan.halt["evidence"]["scope"] == "tenant:acme"


def test_a_halt_of_a_tenant_ends_what_runs_and_what_is_ready_in_one_commit_each() -> None:
    store = MemoryStore(PARTITION)
    runs = of_acme(a_step("a"), store=store)
    waits = of_acme(a_step("a", risk=RiskLevel.HIGH), store=store, plan=2, approvals=("HIGH",))
    other = Running(a_step("a"), store=store, plan=plan_id(3), tenant="globex")
    assert waits.state == "READY"
    stand(store, "halt")
    lease = store.lease(runs.plan_id, "a")

    for plan in (runs, waits, other):
        before = len(plan.changes)
        plan.look()
        assert len(plan.changes) == before + 1

    assert (runs.state, waits.state, other.state) == ("HALTED", "HALTED", "EXECUTING")
    assert lease["action"] == "cancel"
    assert not any(runs.record.reserved.values())


def test_a_cancel_ends_the_plans_that_were_there_and_no_later_one() -> None:
    store = MemoryStore(PARTITION)
    before = of_acme(a_step("a"), store=store)
    stand(store, "cancel")
    store.wait(1)
    after = of_acme(a_step("a"), store=store, plan=2)

    before.look()
    after.look()

    assert (before.state, after.state) == ("HALTED", "EXECUTING")


def test_a_wide_pause_with_an_end_lapses_by_itself() -> None:
    plan = of_acme(a_step("a"), a_step("b", "a"))
    stand(plan.store, "pause", until=rfc3339(plan.store.now + HOUR_MS))
    plan.report(a_report("a"))

    wait_sweeping(plan, HOUR_MS - 10_000)
    assert plan.active == {}
    wait_sweeping(plan, 10_000)

    assert list(plan.active) == ["b"]


def test_the_wall_clock_stands_still_while_a_plan_is_held() -> None:
    plan = of_acme(a_step("a"), a_step("b", "a"), wall_clock_s=600)
    stand(plan.store, "pause")
    plan.report(a_report("a"))
    wait_sweeping(plan, 10 * HOUR_MS, every=HOUR_MS)
    assert plan.state == "EXECUTING"

    lift_scope(plan.store)
    plan.look()
    plan.store.wait(600_000 - 1)
    plan.sweep()
    assert plan.state == "EXECUTING"
    plan.store.wait(1)
    plan.sweep()

    assert plan.halt["rule"] == "wall_clock"


def test_an_attempt_in_flight_hears_of_a_wide_pause_and_of_its_end() -> None:
    plan = of_acme(a_step("a"))
    stand(plan.store, "pause")
    plan.look()
    assert plan.store.lease(plan.plan_id, "a")["action"] == "pause"

    lift_scope(plan.store)
    plan.look()

    assert plan.store.lease(plan.plan_id, "a")["action"] == "continue"


def test_a_plan_that_is_paused_itself_stays_so_when_the_wider_pause_is_lifted() -> None:
    plan = of_acme(a_step("a"), a_step("b", "a"))
    plan.store.now += 1
    stand(plan.store, "pause")
    plan.look()
    plan.obey(a_wide_order("pause", "plan", None, plan_id=plan.plan_id))
    lift_scope(plan.store)
    plan.report(a_report("a"))

    assert plan.active == {}
    assert plan.store.lease(plan.plan_id, "a").get("action") is None  # its attempt has ended
    plan.obey(a_wide_order("resume", "plan", None, plan_id=plan.plan_id, command_id="c-2"))
    assert list(plan.active) == ["b"]


def test_a_resume_of_one_plan_does_not_lift_what_is_wider() -> None:
    plan = of_acme(a_step("a"), a_step("b", "a"))
    stand(plan.store, "pause")
    plan.report(a_report("a"))

    plan.obey(a_wide_order("resume", "plan", None, plan_id=plan.plan_id))

    assert plan.active == {}
    assert "dev.planner.command.refused.v1" in plan.events


def test_an_approval_of_a_plan_that_is_held_counts_once_it_is_released() -> None:
    plan = of_acme(a_step("a", risk=RiskLevel.HIGH), approvals=("HIGH",))
    stand(plan.store, "pause")
    plan.look()

    plan.obey(a_wide_order("approve", "step", None, plan_id=plan.plan_id, step_id="a"))
    assert plan.active == {}
    lift_scope(plan.store)
    plan.look()

    assert list(plan.active) == ["a"]


def test_a_server_without_room_holds_a_plan_for_a_while_but_not_its_attempts() -> None:
    plan = of_acme(a_step("a"), a_step("b"))
    view = plan.begin(Ask(plan.plan_id, ["a"]))
    view.short_of_memory = True

    change = outcomes.apply(view, [a_report("a")])

    assert b"nearly full" in change.fields["live"]
    assert (change.actions, change.dispatches) == ({}, [])
    assert change.wake == plan.store.now + MEMORY_MS


def test_a_step_whose_queue_is_full_waits_in_its_plan_and_others_go_on() -> None:
    store = MemoryStore(PARTITION, max_queue=1)
    first = of_acme(a_step("a", queue="slow"), store=store)
    second = of_acme(a_step("z"), a_step("a", "z", queue="slow"), a_step("b", "z", queue="fast"), store=store, plan=2)
    assert list(second.active) == ["z"]
    second.report(a_report("z"))
    assert list(second.active) == ["b"]
    assert second.state == "EXECUTING"

    first.report(a_report("a"))
    store.wait(1000)
    second.sweep()

    assert sorted(second.active) == ["a", "b"]


def test_a_halt_of_what_nobody_had_claimed_costs_nothing() -> None:
    plan = of_acme(a_step("a"), a_step("b"))
    plan.store.claim(plan.plan_id, "b")
    stand(plan.store, "halt")

    plan.look()

    assert plan.record.spent["tokens"] == 1000
    assert not plan.record.reserved["tokens"]


def test_a_halt_that_took_an_attempt_for_unclaimed_is_stale_once_it_is_claimed() -> None:
    plan = of_acme(a_step("a"))
    stand(plan.store, "halt")
    late = upkeep.apply(plan.begin(Ask(plan.plan_id, ["a"], leases=True)))

    plan.store.claim(plan.plan_id, "a")

    assert plan.store.commit([Write(late)]) == ["stale"]


def test_a_cancel_reaches_a_plan_after_a_week_without_a_worker() -> None:
    plan = of_acme(a_step("a"), wall_clock_s=30 * 86_400)
    stand(plan.store, "cancel")

    plan.store.wait(7 * 86_400_000)
    plan.sweep()

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "manual")


def test_the_log_keeps_what_held_a_plan_and_what_ended_it() -> None:
    plan = of_acme(a_step("a"), a_step("b", "a"))
    stand(plan.store, "pause")
    plan.look()
    held = plan.log[-1]["in"]
    stand(plan.store, "halt")
    plan.look()

    assert held == [["held", plan.record.held, "pause", "tenant:acme", "ada", "why", "c-1", 0]]
    assert plan.log[-1]["in"] == [["order", "halt", "tenant:acme", "ada", "why", "c-1", 0], ["unclaimed", "a", 1]]
