"""Plain changes on a real server: the same data as by ordinary commits, and each plan of a call for itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from schemas import codec
from tasks.handlers import outcomes
from tasks.plan.changeset import PlainChange
from tasks.plan.hot_plan import HotPlan
from tasks.plan.report import PlainReport
from tasks.policy import plain_success
from tests.support.plain import held_on, hot_plan, state_of
from tests.support.plans import PARTITION, a_plan, a_step, plan_id, some_steps
from tests.support.real_store import PAUSE, RETENTION_S, Real
from worker.store import clients, functions
from worker.store.keys import GROUP
from worker.store.plans import Ask, PlanStore, PlanTalk, Write
from worker.streams.decode import read_plain_outcome
from worker.streams.inbox import StreamEntry

ENTRY = re.compile(rb"\d{13}-\d+")
CODE = "test"
QUEUE = PARTITION.steps("default")


@pytest.fixture
def real(redis_url: str) -> Iterator[Real]:
    with clients.connect(redis_url) as client:
        yield Real(client)


def store_of(real: Real) -> PlanStore:
    return PlanStore(real.client, PARTITION, "me", RETENTION_S, real.commits, real.max_queue)


def create(real: Real, *steps: Any, plan: str, **limits: Any) -> None:
    changes = a_plan(*steps, plan=plan, **limits)
    assert real.commit([Write(change) for change in changes]) == ["ok"] * len(changes)


def report(real: Real, plan: str, step: str, attempt: int, lease: str) -> PlainReport:
    """The success of an attempt, published and read by the planner's group."""
    said = {"step_id": step, "success": True, "plan_id": plan, "attempt": attempt, "lease": lease}
    raw = codec.dumps({**said, "touched_files": [f"src/{step}.py"], "metrics": {"tokens_used": 10}})
    found = read_plain_outcome(StreamEntry(PARTITION.outcomes, real.report(raw), {b"data": raw}))
    assert found
    return found


def lend(talk: PlanTalk, plans: Sequence[str]) -> list[HotPlan]:
    asks = [Ask(plan) for plan in plans]
    talk.begin(asks)
    found = talk.snapshots(asks)
    assert all(isinstance(plan, HotPlan) for plan in found)
    return [plan for plan in found if isinstance(plan, HotPlan)]


def decide(plan: HotPlan, said: PlainReport, now: int) -> PlainChange:
    change = plain_success.decide(plan, said, now, CODE)
    assert change is not None
    return change


def first(plan: HotPlan) -> tuple[str, int, str]:
    step, attempt = sorted(plan.active.items())[0]
    return step, attempt.attempt, attempt.lease


SHAPES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a chain": ([a_step("a"), a_step("b", "a"), a_step("c", "b")], {}),
    "one that frees several": ([a_step("a"), *some_steps(5, "a")], {"max_parallel": 2}),
    "one that two wait for": ([a_step("a"), a_step("b"), a_step("c", "a", "b")], {"max_parallel": 2}),
    "a queue of ready steps": (some_steps(9), {"max_parallel": 3}),
    "one that nobody waits for": ([a_step("a"), a_step("b", files=["src/x.py"])], {"max_parallel": 2}),
    "the last one": ([a_step("a")], {}),
    "the last one of a tenant's repository": ([a_step("a")], {"tenant": "acme & co", "repo": "acme/shop"}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_plain_change_writes_what_an_ordinary_commit_writes(real: Real, shape: str) -> None:
    steps, limits = SHAPES[shape]
    written = []
    for is_plain in (True, False):
        real.client.flushdb()
        functions.load(real.client)
        real.commits = type(real.commits)(real.client, PARTITION, None)
        real.client.set(PARTITION.outbox_open, 1)
        create(real, a_step("a"), plan=plan_id(2))
        create(real, *steps, plan=plan_id(), **limits)
        real.client.xgroup_create(PARTITION.outcomes, GROUP, id="0", mkstream=True)
        with store_of(real).talk() as talk:
            (plan,) = lend(talk, [plan_id()])
            said = report(real, plan.plan_id, *first(plan))
            real.client.xreadgroup(GROUP, "reader", {PARTITION.outcomes: ">"})
            now = plan.record.times["created"] + 1000
            if is_plain:
                talk.commit([decide(plan, said, now)])
            else:
                view = talk.view(plan, Ask(plan.plan_id, [said.step_id]))
                view.now, view.code = now, CODE
                change = outcomes.apply(view, [said.ordinary()])
                talk.commit([Write(change, [(PARTITION.outcomes, said.entry.encode())])])
            assert talk.verdicts() == ["ok"]
        written.append((normal(real.everything()), going(real)))

    assert written[0] == written[1]


def going(real: Real) -> set[str]:
    """The keys that go once an ended plan is not kept any more."""
    return {key for key in real.everything() if RETENTION_S - 60 < (real.goes_in_s(key) or 0) <= RETENTION_S}


def normal(everything: Any) -> Any:
    """The data with one name for every stream entry, and without when they were delivered."""
    if isinstance(everything, dict):
        return {normal(key): normal(value) for key, value in everything.items()}
    if isinstance(everything, list | tuple):
        return [normal(each) for each in everything]
    return ENTRY.sub(b"<entry>", everything) if isinstance(everything, bytes) else everything


def test_a_plan_that_was_changed_meanwhile_spoils_no_other_of_its_call(real: Real) -> None:
    plans = [plan_id(number) for number in range(4)]
    for plan in plans:
        create(real, a_step("a"), a_step("b", "a"), plan=plan)
    store = store_of(real)
    with store.talk() as talk:
        lent = lend(talk, plans)
        changes = [decide(plan, report(real, plan.plan_id, *first(plan)), 10**12) for plan in lent]
        real.client.hincrby(PARTITION.plan(plans[1]).plan, "version", 1)
        real.client.delete(PARTITION.plan(plans[2]).plan)
        before = real.everything()
        talk.commit(changes)

        assert talk.verdicts() == ["ok", "stale", "gone", "ok"]

    after = real.everything()
    touched = {key for key in after if after[key] != before.get(key)}
    assert not any(plans[1] in key or plans[2] in key for key in touched)
    assert [store.hot.lend(plan) is not None for plan in plans] == [True, False, False, True]


def test_a_plan_that_is_completed_is_not_kept(real: Real) -> None:
    create(real, a_step("a"), plan=plan_id())
    store = store_of(real)
    with store.talk() as talk:
        (plan,) = lend(talk, [plan_id()])
        talk.commit([decide(plan, report(real, plan.plan_id, *first(plan)), 10**12)])

        assert talk.verdicts() == ["ok"]

    assert store.hot.lend(plan_id()) is None
    assert going(real) >= {*PARTITION.plan(plan_id())[:3], PARTITION.plan(plan_id()).log}


def test_a_queue_takes_no_more_plain_specs_than_it_has_room_for(real: Real) -> None:
    plans = [plan_id(number) for number in range(3)]
    for plan in plans:
        create(real, a_step("a"), a_step("b", "a"), plan=plan)
    real.max_queue = real.client.xlen(QUEUE) + 1
    with store_of(real).talk() as talk:
        lent = lend(talk, plans)
        talk.commit([decide(plan, report(real, plan.plan_id, *first(plan)), 10**12) for plan in lent])

        assert talk.verdicts() == ["ok", f"full {QUEUE}", f"full {QUEUE}"]


def test_an_order_that_was_given_meanwhile_makes_plain_changes_stale(real: Real) -> None:
    create(real, a_step("a"), a_step("b", "a"), plan=plan_id())
    with store_of(real).talk() as talk:
        (plan,) = lend(talk, [plan_id()])
        change = decide(plan, report(real, plan.plan_id, *first(plan)), 10**12)
        functions.call(real.client, "FCALL", functions.PAUSE_SCOPE, 1, PARTITION.scopes, 0, "pause all", PAUSE)
        talk.commit([change])

        assert talk.verdicts() == ["stale"]


def test_a_key_of_another_type_refuses_its_plan_alone(real: Real) -> None:
    plans = [plan_id(number) for number in range(2)]
    for number, plan in enumerate(plans):
        create(real, a_step("a"), a_step("b", "a", queue=f"q{number}"), plan=plan)
    real.put(PARTITION.steps("q0"), "a text")
    with store_of(real).talk() as talk:
        lent = lend(talk, plans)
        talk.commit([decide(plan, report(real, plan.plan_id, *first(plan)), 10**12) for plan in lent])
        refused, made = talk.verdicts()

    assert "is not a stream" in str(refused)
    assert made == "ok"
    assert real.fields(PARTITION.plan(plans[0]).plan)["version"] == b"1"


def test_changes_of_one_plan_are_refused_with_the_first_of_them_though_the_version_is_theirs(real: Real) -> None:
    """What another worker has committed meanwhile makes the version what the second change expects."""
    create(real, *some_steps(6), plan=plan_id(), max_parallel=3)
    with store_of(real).talk() as talk:
        (plan,) = lend(talk, [plan_id()])
        live = sorted(plan.active.items())[:2]
        said = [report(real, plan_id(), step, one.attempt, one.lease) for step, one in live]
        changes = [decide(plan, each, 10**12) for each in said]
        real.client.hincrby(PARTITION.plan(plan_id()).plan, "version", 1)
        before = real.everything()
        talk.commit(changes)

        assert talk.verdicts() == ["stale", "stale"]

    assert real.everything() == before


def test_changes_of_one_plan_are_made_one_after_the_other(real: Real) -> None:
    create(real, *some_steps(6), plan=plan_id(), max_parallel=3)
    store = store_of(real)
    with store.talk() as talk:
        (plan,) = lend(talk, [plan_id()])
        live = sorted(plan.active.items())
        said = [report(real, plan_id(), step, one.attempt, one.lease) for step, one in live]
        talk.commit([decide(plan, each, 10**12) for each in said])

        assert talk.verdicts() == ["ok"] * 3

    kept = store.hot.lend(plan_id())
    assert kept is not None
    assert state_of(kept) == state_of(hot_plan(held_on(real.client, PARTITION, plan_id())))
