"""What a store of plans promises: one suite for the dict fake and for the functions on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

import pytest
from redis.exceptions import ResponseError

from schemas.command import Command
from schemas.times import DAY_MS
from tasks.base.errors import NeedsSteps
from tasks.handlers import commands, goals, outcomes, upkeep
from tasks.memory.flaky_tests import Sighting, counters_of
from tasks.plan.changeset import Changeset, HistoryChange, KeptChange, RecordedAttempt, UsedTokens
from tasks.plan.hot_plan import HotPlan
from tasks.plan.snapshot import WINDOW, Grant, Lease, Snapshot
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.starts import SILENT_MS
from tasks.rules.estimates import LAST
from tasks.rules.strategy import Rejected
from tests.support.memory_store import EPOCH_MS
from tests.support.open_memory import OpenMemory
from tests.support.plans import (
    PARTITION,
    PLAN,
    a_check,
    a_failure,
    a_goal,
    a_plan,
    a_plan_seed,
    a_report,
    a_step,
    plan_id,
    some_steps,
)
from tests.support.real_store import PAUSE, RETENTION_S, Real
from worker.store import clients, flaky_memory, functions, keys
from worker.store.functions import FunctionsMissing
from worker.store.hot_plans import WHOLE_STEPS
from worker.store.keys import CONTROLLERS, GROUP
from worker.store.plans import Ask, Begun, NoSnapshot, PlanStore, RolledBack, Write

KEYS = PARTITION.plan(PLAN)
QUEUE = PARTITION.steps("default")
TENANT = "tenant:acme"


class Store(Protocol):
    """The two verbs of a store, and what a test looks at."""

    def begin(self, asks: Sequence[Ask], token: str = "me") -> list[Begun]: ...
    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]: ...
    def fields(self, key: str) -> dict[str, Any]: ...
    def members(self, key: str) -> dict[str, int]: ...
    def listed(self, key: str) -> list[bytes]: ...
    def specs(self, queue: str) -> list[dict[str, Any]]: ...
    def read(self, stream: str, group: str) -> list[bytes]: ...
    def pending(self, stream: str, group: str) -> int: ...
    def report(self, data: bytes) -> bytes: ...
    def put(self, key: str, text: str) -> None: ...
    def end_lock(self, plan: str) -> None: ...
    def goes_in_s(self, key: str) -> int | None: ...
    def everything(self) -> dict[str, Any]: ...
    def set_field(self, key: str, name: str, value: str) -> None: ...

    max_queue: int


@pytest.fixture(params=["memory", "redis", "redis in parts"])
def store(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        yield OpenMemory(PARTITION, RETENTION_S)
    else:
        with clients.connect(request.getfixturevalue("redis_url")) as client:
            yield Real(client, WHOLE_STEPS if request.param == "redis" else 0)


@pytest.fixture
def real(redis_url: str) -> Any:
    with clients.connect(redis_url) as client:
        yield Real(client)


def create(store: Store, *steps: Any, plan: str = PLAN, **limits: Any) -> None:
    changes = a_plan(*steps, plan=plan, **limits)
    assert store.commit([Write(change) for change in changes]) == ["ok"] * len(changes)
    if changes[-1].more:
        store.commit([Write(outcomes.apply(begin(store, plan=plan), ()))])


def begin(store: Store, *steps: str, plan: str = PLAN, leases: bool = False) -> Snapshot:
    (view,) = store.begin([Ask(plan, steps, leases=leases)])
    assert isinstance(view, Snapshot)
    return view


def done(store: Store, *steps: str, plan: str = PLAN) -> Changeset:
    """The change of these steps' success."""
    return outcomes.apply(begin(store, *steps, plan=plan), [a_report(step) for step in steps])


def version(store: Store, plan: str = PLAN) -> int:
    return int(store.fields(PARTITION.plan(plan).plan)["version"])


def test_what_was_created_can_be_begun(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a"))

    view = begin(store, "a")

    assert (view.record.version, view.record.state, view.record.counts["ACTIVE"]) == (1, "EXECUTING", 1)
    assert {step: view.steps[step].status.state for step in view.steps} == {"a": "ACTIVE", "b": "BLOCKED"}
    assert (view.reply_to, view.lease_prefix) == (PARTITION.outcomes, PARTITION.lease_prefix(PLAN))


def test_second_commit_of_the_same_version_is_stale_and_writes_nothing(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a"))
    first, second = done(store, "a"), done(store, "a")
    assert store.commit([Write(first)]) == ["ok"]
    before = store.everything()

    verdicts = store.commit([Write(second, [(PARTITION.outcomes, b"1-1")])])

    assert verdicts == ["stale"]
    assert store.everything() == before


def test_a_change_that_rests_on_one_that_was_refused_is_stale_though_the_version_is_its_own(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a"))
    first, second = Changeset(PLAN, 0, 0, changed=True, tenant="t"), done(store, "a")
    before = store.everything()

    assert store.commit([Write(first), Write(second)]) == ["stale", "stale"]
    assert store.everything() == before


def test_creating_a_plan_twice_is_stale(store: Store) -> None:
    create(store, a_step("a"))
    before = store.everything()

    assert store.commit([Write(a_plan(a_step("z"))[0])]) == ["stale"]
    assert store.everything() == before


def test_a_commit_to_a_plan_that_is_gone_writes_nothing(store: Store) -> None:
    (change,) = a_plan(a_step("a"), version=3)

    assert store.commit([Write(change)]) == ["gone"]
    assert store.everything() == {}


def test_a_plan_that_is_gone_gives_no_slice_and_gets_no_lock(store: Store) -> None:
    assert store.begin([Ask(PLAN, ["a"])]) == [NoSnapshot.GONE]
    assert store.everything() == {}


def test_each_plan_of_a_batch_has_its_own_version(store: Store) -> None:
    one, two = plan_id(1), plan_id(2)
    create(store, a_step("a"), plan=one)
    create(store, a_step("a"), plan=two)
    writes = [Write(done(store, "a", plan=plan)) for plan in (one, two, one)]

    assert store.commit(writes) == ["ok", "ok", "stale"]
    assert (version(store, one), version(store, two)) == (2, 2)


def test_a_plan_that_another_worker_decides_about_is_busy(store: Store) -> None:
    create(store, a_step("a"))
    begin(store)

    assert store.begin([Ask(PLAN)], token="other") == [NoSnapshot.BUSY]
    assert isinstance(store.begin([Ask(PLAN)])[0], Snapshot)


def test_a_lock_ends_with_the_commit(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a"))
    store.commit([Write(done(store, "a"))])

    assert isinstance(store.begin([Ask(PLAN)], token="other")[0], Snapshot)


def test_a_lock_runs_out_by_itself(store: Store) -> None:
    create(store, a_step("a"))
    begin(store)
    store.end_lock(PLAN)

    assert isinstance(store.begin([Ask(PLAN)], token="other")[0], Snapshot)


def test_a_change_that_only_acknowledges_leaves_the_version_and_gives_the_lock_back(store: Store) -> None:
    create(store, a_step("a"))
    view = begin(store, "zz")
    change = outcomes.apply(view, [a_report("zz")])

    assert store.commit([Write(change)]) == ["ok"]
    assert version(store) == 1
    assert isinstance(store.begin([Ask(PLAN)], token="other")[0], Snapshot)


def test_begin_names_only_what_a_decision_can_touch(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a"), a_step("c", "a", "b"), a_step("z", "b"), max_parallel=1)

    view = begin(store, "a")

    assert set(view.steps) == {"a", "b", "c"}
    assert view.steps["a"].spec
    assert view.steps["b"].spec
    assert view.steps["c"].spec is None  # one end cannot make it ready: it waits for two
    assert view.windows["a", 0].dependents == ["b", "c"]
    assert not view.windows["a", 0].more


def test_a_note_is_read_only_by_who_names_it(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a"))
    unit = UnitOfWork(begin(store, "a"))
    unit.keep_note("answer-a", {"files": ["src/ä.py"]})
    assert store.commit([Write(unit.close())]) == ["ok"]

    unasked, asked = begin(store, "a"), begin(store, "a", "=answer-a", "=answer-b", leases=True)

    assert unasked.notes == {}
    with pytest.raises(NeedsSteps) as needed:
        UnitOfWork(unasked).note("answer-a")
    assert needed.value.step_ids == {"=answer-a"}
    assert UnitOfWork(asked).note("answer-a") == {"files": ["src/ä.py"]}
    assert UnitOfWork(asked).note("answer-b") is None
    assert set(asked.steps) == {"a", "b"}


def test_begin_gives_a_page_of_the_ready_queue_in_order(store: Store) -> None:
    create(store, *some_steps(20), max_parallel=3)

    view = begin(store, "s-0")

    assert view.ready == [f"s-{n}" for n in range(3, 8)]  # one for the end that is told, and four to spare
    assert view.ready_beyond
    assert all(view.steps[step].spec for step in view.ready)
    assert set(view.active) == {"s-0", "s-1", "s-2"}
    assert view.active["s-0"].files == ["src/s-0.py"]


def test_many_dependents_come_in_windows(store: Store) -> None:
    create(store, a_step("root"), *some_steps(2 * WINDOW + 1, "root"), max_parallel=1)

    first = begin(store, "root")
    change = outcomes.apply(first, [a_report("root")])
    store.commit([Write(change)])
    second = begin(store)

    assert len(first.windows["root", 0].dependents) == WINDOW
    assert first.windows["root", 0].more
    assert second.todo == [("root", 1)]
    assert len(second.windows["root", 1].dependents) == WINDOW
    assert second.windows["root", 1].more
    assert second.steps["root"].status.state == "DONE"


def test_an_outcome_leaves_what_its_attempt_used_to_later_plans(store: Store) -> None:
    create(store, a_step("a"), a_step("b"), a_check("c"))
    for step, tokens in (("a", 300), ("b", 0), ("c", 7)):
        change = outcomes.apply(begin(store, step), [a_report(step, metrics={"tokens_used": tokens})])
        assert store.commit([Write(change)]) == ["ok"]

    everything = store.everything()
    assert [int(tokens) for tokens in everything[PARTITION.used("patch:default")]] == [0, 300]
    assert PARTITION.used("test:default") not in everything


def test_no_more_is_kept_of_what_attempts_used_than_estimates_are_learned_from(real: Real) -> None:
    name, count = "patch:default", 40
    for number in range(1, 4):
        change = recalling(number)
        change.used = [UsedTokens(name, 1000 * number + each) for each in range(count)]
        assert real.commit([Write(change)]) == ["ok"]

    kept = cast("Any", real.client).lrange(PARTITION.used(name), 0, -1)
    assert [int(tokens) for tokens in kept[:LAST]] == [
        *(3000 + each for each in reversed(range(count))),
        *(2000 + each for each in range(count - 1, count - 1 - LAST + count, -1)),
    ]
    assert len(kept) < LAST + 16
    assert 0 < cast("Any", real.client).ttl(PARTITION.used(name)) <= 90 * DAY_MS // 1000


def recalling(number: int, *recalls: HistoryChange) -> Changeset:
    (change,) = a_plan(a_step("a"), plan=plan_id(number))
    change.history += recalls
    return change


def test_a_counter_that_plans_leave_to_each_other_is_raised_and_dropped(store: Store) -> None:
    counters = PARTITION.recall("x")

    assert store.commit([Write(recalling(1, HistoryChange("x", "gap", "", 1), HistoryChange("x", "n", 0, 1)))]) == [
        "ok"
    ]
    assert {name: int(count) for name, count in store.fields(counters).items()} == {"gap": 1, "n": 1}
    assert store.commit([Write(recalling(2, HistoryChange("x", "gap", "", ""), HistoryChange("x", "n", 1, 1)))]) == [
        "ok"
    ]
    assert {name: int(count) for name, count in store.fields(counters).items()} == {"n": 2}


def test_a_counter_that_was_raised_meanwhile_makes_a_commit_stale(store: Store) -> None:
    assert store.commit([Write(recalling(1, HistoryChange("x", "n", 0, 1)))]) == ["ok"]
    before = store.everything()

    assert store.commit([Write(recalling(2, HistoryChange("x", "n", 0, 1)))]) == ["stale"]
    assert store.everything() == before


def test_the_end_of_a_plan_adds_to_the_sums_of_its_hour_and_day(store: Store) -> None:
    for number, step in enumerate(("a", "a", "b", "b"), 1):
        create(store, a_step(step, retries=0), plan=plan_id(number), tenant="acme & co", repo="acme/shop")
        change = done(store, step, plan=plan_id(number))
        if number == 3:
            fails = [a_failure(step, 1)]
            change = outcomes.apply(begin(store, step, plan=plan_id(number)), fails)
        assert store.commit([Write(change)]) == ["ok"]

    for period, ms in (("hour", DAY_MS // 24), ("day", DAY_MS)):
        found = store.fields(PARTITION.sums(period, change.now // ms))
        assert found == {
            "acme%20%26%20co acme/shop": b"completed=3 tokens=4000 steps=3 halted:cannot_revise=1 failures=1"
        }


def test_an_end_that_is_looked_at_again_is_not_added_twice(store: Store) -> None:
    create(store, a_step("a"))
    store.commit([Write(done(store, "a"))])
    store.commit([Write(outcomes.apply(begin(store, "a"), [a_report("a")]))])  # late
    store.commit([Write(upkeep.apply(begin(store)))])

    (sums,) = store.fields(PARTITION.sums("day", begin(store).now // DAY_MS)).values()
    assert sums.startswith(b"completed=1 ")


def test_sums_go_90_days_after_their_period(real: Real) -> None:
    create(real, a_step("a"))
    change = done(real, "a")
    real.commit([Write(change)])

    for period, ms in (("hour", DAY_MS // 24), ("day", DAY_MS)):
        key = PARTITION.sums(period, change.now // ms)
        goes = real.client.expiretime(key)
        assert goes == (change.now // ms + 1) * ms // 1000 + 90 * 86400


def test_a_period_has_a_bounded_number_of_sums(real: Real) -> None:
    for number in range(140):
        tenant, plan = f"t{number}" if number >= 70 else "acme", plan_id(number)
        create(real, a_step("a"), plan=plan, tenant=tenant, repo=f"r{number}")
        change = replace(done(real, "a", plan=plan), now=EPOCH_MS)
        assert real.commit([Write(change)]) == ["ok"]

    found = real.fields(PARTITION.sums("hour", EPOCH_MS // (DAY_MS // 24)))
    assert len(found) == 2 * 64 + 1
    assert found["acme *"].startswith(b"completed=6 ")  # r64 to r69
    assert found["t70 *"].startswith(b"completed=1 ")
    assert found["* *"].startswith(b"completed=")
    assert sum(int(sums.split()[0].partition(b"=")[2]) for sums in found.values()) == 140


def test_counters_are_bounded_and_go_when_nobody_adds_to_them(real: Real) -> None:
    counters = PARTITION.recall("x")
    real.client.hset(counters, mapping={f"gap:{number}": 1 for number in range(1000)})

    real.commit([Write(recalling(1, HistoryChange("x", "gap:new", "", 1), HistoryChange("x", "gap:7", "", 1)))])

    assert real.fields(counters)["gap:7"] == b"2"
    assert len(real.fields(counters)) == 1000
    assert 0 < real.client.ttl(counters) <= 180 * 86400


def remembering(number: int, *changes: KeptChange) -> Write:
    (change,) = a_plan(a_step("a"), plan=plan_id(number))
    change.kept += changes
    return Write(change)


def put(field: str, value: bytes = b"1", most: int = 3) -> KeptChange:
    return KeptChange("x", field, value, most, 60)


def test_what_was_first_remembered_goes_first_where_there_is_too_much(store: Store) -> None:
    kept = PARTITION.kept("x")
    assert store.commit([remembering(1, put("a"), put("b"), put("c"), put("a", b"2"))]) == ["ok"]
    assert store.fields(kept) == {"a": b"2", "b": b"1", "c": b"1"}

    store.commit([remembering(2, put("d"), put("b", b""), put("b", b""))])
    assert store.fields(kept) == {"c": b"1", "d": b"1"}

    store.commit([remembering(3, put("b", b"3"), put("e"))])
    assert store.fields(kept) == {"d": b"1", "b": b"3", "e": b"1"}


@pytest.mark.parametrize(
    ("value", "stays"),
    [
        (b'{"output":{"plan_id":"p-1"},"plan_id":"p-2"}', True),
        (b'{"output":{"plan_id":"p-2"},"plan_id":"p-1"}', False),
        (b"{}", False),
        (b"{", False),
        (b"1", False),
    ],
)
def test_what_another_plan_has_put_since_is_not_dropped(store: Store, value: bytes, stays: bool) -> None:
    kept = PARTITION.kept("x")
    store.commit([remembering(1, put("a", value), put("b", value))])

    gone = KeptChange("x", "a", b"", 3, 60, "p-1")
    assert store.commit([remembering(2, gone, put("b", b""), gone._replace(field="none"))]) == ["ok"]

    assert store.fields(kept) == ({"a": value} if stays else {})


def test_nothing_is_remembered_of_a_commit_that_is_refused(store: Store) -> None:
    create(store, a_step("a"))
    before = store.everything()

    late = remembering(1, put("a"))
    assert store.commit([late]) == ["stale"]
    assert store.everything() == before


def test_what_is_remembered_goes_when_nothing_is_put_for_long(real: Real) -> None:
    real.commit([remembering(1, put("a"), put("b"))])

    for key in (PARTITION.kept("x"), PARTITION.kept("x") + ":order"):
        assert 0 < real.client.ttl(key) <= 60
    real.commit([remembering(2, put("a", b""), put("b", b""))])
    assert not real.client.exists(PARTITION.kept("x"), PARTITION.kept("x") + ":order")


def test_work_left_over_is_taken_from_the_head_and_added_at_the_tail(store: Store) -> None:
    create(store, a_step("a"), a_step("b"), max_parallel=1)
    push = Changeset(PLAN, 1, 0, changed=True, todo_push=[("a", n) for n in range(11)])
    store.commit([Write(push)])

    view = begin(store)
    store.commit([Write(Changeset(PLAN, 2, 0, changed=True, todo_pop=len(view.todo), todo_push=[("b", 7)]))])

    assert view.todo == [("a", n) for n in range(8)]
    assert view.todo_beyond == 3
    assert store.listed(KEYS.todo) == [b"a 8", b"a 9", b"a 10", b"b 7"]


def test_a_dispatch_makes_the_queue_with_its_group_at_the_beginning(store: Store) -> None:
    create(store, a_step("a"), a_step("b", queue="slow"))

    (spec,) = store.specs(QUEUE)
    (slow,) = store.specs(PARTITION.steps("slow"))

    assert (spec["step_id"], spec["plan_id"], spec["attempt"]) == ("a", PLAN, 1)
    assert (slow["step_id"], slow["queue"]) == ("b", "slow")
    assert len(store.read(QUEUE, CONTROLLERS)) == 1


def test_a_dispatch_opens_the_lease_that_the_spec_names(store: Store) -> None:
    create(store, a_step("a", tokens=700))

    (spec,) = store.specs(QUEUE)
    lease = {name: str(_text(value)) for name, value in store.fields(spec["lease_key"]).items()}

    assert (lease["attempt"], lease["lease"], lease["tokens"]) == ("1", spec["lease"], "700")
    assert begin(store, "a", leases=True).leases == {"a": Lease(1, 0, 0)}


def test_an_attempt_that_ended_leaves_queue_group_and_lease(store: Store) -> None:
    create(store, a_step("a"))
    (lease,) = (spec["lease_key"] for spec in store.specs(QUEUE))
    store.read(QUEUE, CONTROLLERS)

    store.commit([Write(done(store, "a"))])

    assert store.specs(QUEUE) == []
    assert store.pending(QUEUE, CONTROLLERS) == 0
    assert store.fields(lease) == {}
    assert store.fields(KEYS.active) == {}


def test_a_step_that_starts_again_has_its_new_lease_only(store: Store) -> None:
    create(store, a_step("a"))
    view = begin(store, "a")

    store.commit([Write(outcomes.apply(view, [a_failure("a")]))])

    (spec,) = store.specs(QUEUE)
    assert spec["attempt"] == 2
    assert begin(store, "a", leases=True).leases == {"a": Lease(2, 0, 0)}
    assert begin(store, "a").active["a"].attempt == 2


def test_outcome_entries_are_acknowledged_and_deleted_by_the_commit_that_applies_them(store: Store) -> None:
    create(store, a_step("a"), a_step("b"))
    entries = [store.report(b"1"), store.report(b"2")]
    assert store.read(PARTITION.outcomes, GROUP) == entries

    store.commit([Write(done(store, "a"), [(PARTITION.outcomes, entries[0])])])

    assert store.pending(PARTITION.outcomes, GROUP) == 1


def test_a_plan_has_one_timer_that_changes_move_or_leave(store: Store) -> None:
    create(store, a_step("a"))
    (first,) = store.members(PARTITION.timers).items()

    store.commit([Write(Changeset(PLAN, 1, 0, changed=True))])
    left = store.members(PARTITION.timers)
    store.commit([Write(Changeset(PLAN, 2, 0, changed=True, wake=77))])
    moved = store.members(PARTITION.timers)
    store.commit([Write(Changeset(PLAN, 3, 0, changed=True, wake=0))])

    assert first[0] == PLAN
    assert left == dict([first])
    assert moved == {PLAN: 77}
    assert store.members(PARTITION.timers) == {}


def test_all_keys_of_an_ended_plan_go_together(store: Store) -> None:
    create(store, a_step("a"), a_step("b"))
    kept = [KEYS.plan, KEYS.steps, KEYS.status, KEYS.log]
    assert [store.goes_in_s(key) for key in kept] == [None] * 4

    store.commit([Write(done(store, "a", "b"))])

    assert store.fields(KEYS.plan)["state"] == b"COMPLETED"
    assert all(RETENTION_S - 5 <= (store.goes_in_s(key) or 0) <= RETENTION_S for key in kept)
    (looked_at,) = store.members(PARTITION.timers).values()
    assert 0 < looked_at - begin(store).now <= 5000  # unless somebody confirms before that its goal's record knows

    plan = begin(store)
    store.commit([Write(Changeset(PLAN, plan.record.version, plan.now, wake=0))])

    (forgotten_at,) = store.members(PARTITION.timers).values()
    assert forgotten_at > begin(store).now + 1000 * (RETENTION_S - 5)


def test_a_late_message_does_not_keep_an_ended_plan(store: Store) -> None:
    create(store, a_step("a"))
    store.commit([Write(done(store, "a"))])

    store.commit([Write(outcomes.apply(begin(store, "a"), [a_failure("a", 1)]))])

    assert store.goes_in_s(KEYS.plan)


def grants(store: Store) -> dict[str, str]:
    return {scope: _text(value) for scope, value in store.fields(PARTITION.grants).items()}


def grant(store: Store, left: int, *, day: int | None = None, over: int = 0) -> None:
    store.set_field(PARTITION.grants, TENANT, f"{today(store) if day is None else day} {left} {over}")


def today(store: Store) -> int:
    return int(store.begin([Ask(PLAN)])[0].now) // DAY_MS  # type: ignore[union-attr]


def with_quota(store: Store, *steps: Any) -> None:
    """A plan that counts for the day budget of a tenant."""
    create(store, *steps, born={"grants": {TENANT: Grant(0)}})


def test_begin_reads_the_grants_that_count_for_the_plan(store: Store) -> None:
    with_quota(store, a_step("a"))
    assert begin(store).grants == {TENANT: Grant(0)}

    grant(store, 700)
    store.set_field(PARTITION.grants, "tenant:other", f"{today(store)} 5 0")
    assert begin(store).grants == {TENANT: Grant(700)}
    grant(store, 0, over=1)
    assert begin(store).grants == {TENANT: Grant(0, exhausted=True)}


def test_what_a_grant_had_left_yesterday_is_gone(store: Store) -> None:
    with_quota(store, a_step("a"))
    grant(store, 700, day=today(store) - 1, over=1)

    assert begin(store).grants == {TENANT: Grant(0)}


def test_a_plan_without_day_budgets_reads_none(store: Store) -> None:
    create(store, a_step("a"))
    grant(store, 700)

    assert begin(store).grants == {}


def test_a_commit_takes_from_a_grant_what_it_uses_and_gives_back_the_rest(store: Store) -> None:
    with_quota(store, a_step("a"), a_step("b", "a"))
    grant(store, 10_000)
    store.commit([Write(outcomes.apply(begin(store), ()))])
    assert grants(store) == {TENANT: f"{today(store)} 9000 0"}

    report = a_report("a", metrics={"tokens_used": 300})
    store.commit([Write(outcomes.apply(begin(store, "a"), [report]))])

    assert grants(store) == {TENANT: f"{today(store)} 8700 0"}  # 300 are spent, 1000 held for b


@pytest.mark.parametrize(
    ("left", "verdict"), [(10_000, "ok"), (9000, "ok"), (1000, "ok"), (999, "stale"), (0, "stale")]
)
def test_a_commit_whose_grant_was_taken_from_meanwhile_is_stale_if_it_lacks_something(
    store: Store, left: int, verdict: str
) -> None:
    with_quota(store, a_step("a"))
    grant(store, 10_000)
    change = outcomes.apply(begin(store), ())
    assert change.rests_on == {TENANT: 10_000}
    grant(store, left)

    assert store.commit([Write(change)]) == [verdict]

    assert grants(store)[TENANT].split()[1] == str(left - 1000 if verdict == "ok" else left)


def test_what_was_decided_with_little_left_is_committed_while_that_is_so(store: Store) -> None:
    with_quota(store, a_step("a"))
    grant(store, 300, over=1)

    assert store.commit([Write(outcomes.apply(begin(store), ()))]) == ["ok"]

    assert grants(store) == {TENANT: f"{today(store)} 0 1"}
    assert begin(store).active["a"].tokens == 300


def test_a_queue_that_is_full_takes_no_more_and_nothing_is_written(store: Store) -> None:
    store.max_queue = 2
    create(store, a_step("a"), a_step("b", "a"), a_step("c", "a"), a_step("d", "a"))
    change = done(store, "a")
    before = store.everything()

    assert store.commit([Write(change)]) == [f"full {QUEUE}"]

    assert store.everything() == before
    view = begin(store, "a")
    view.full = {"default"}
    assert store.commit([Write(outcomes.apply(view, [a_report("a")]))]) == ["ok"]
    assert store.members(KEYS.ready) == {"b": 1, "c": 2, "d": 3}


def test_a_full_queue_keeps_others_from_nothing(store: Store) -> None:
    store.max_queue = 1
    create(store, a_step("a", queue="slow"))
    create(store, a_step("b", queue="fast"), plan=plan_id(2))

    assert len(store.specs(PARTITION.steps("fast"))) == 1


def test_what_is_in_flight_hears_of_an_action(store: Store) -> None:
    create(store, a_step("a"), a_step("b"))

    store.commit([Write(Changeset(PLAN, 1, 0, changed=True, actions={"a": "pause"}))])

    leases = [store.fields(PARTITION.lease_prefix(PLAN) + step) for step in "ab"]
    assert [_text(lease.get("action")) for lease in leases] == ["pause", None]


def test_an_attempt_after_one_that_was_cancelled_has_its_own_lease(store: Store) -> None:
    create(store, a_step("a", files=["src/a.py", "src/b.py"]))
    order: dict[str, Any] = {
        "command_id": "c",
        "command": "tighten",
        "scope": "plan",
        "plan_id": PLAN,
        "actor": "ada",
        "reason": "",
    }
    order["value"] = {"allowed_files": ["src/a.py"]}

    change = commands.apply(begin(store, "a"), [Command.model_validate(order)])
    assert (change.cancelled, len(change.dispatches)) == ({"a"}, 1)
    store.commit([Write(change)])

    key = PARTITION.lease_prefix(PLAN) + "a"
    assert "action" not in store.fields(key)
    assert store.goes_in_s(key) is None


def test_a_tenant_has_as_many_plans_as_have_not_ended(store: Store) -> None:
    def counted() -> dict[str, int]:
        return {tenant: int(count) for tenant, count in store.fields(PARTITION.tenants).items()}

    create(store, a_step("a"), tenant="acme")
    create(store, *some_steps(70), plan=plan_id(2), tenant="acme")  # made by several commits
    create(store, a_step("a"), plan=plan_id(3), tenant="globex")
    assert counted() == {"acme": 2, "globex": 1}

    store.commit([Write(done(store, "a"))])
    store.commit([Write(outcomes.apply(begin(store, "a"), [a_failure("a", 1)]))])  # late: it ended before
    store.commit([Write(done(store, "a", plan=plan_id(3)))])

    assert counted() == {"acme": 1}


def test_a_plan_that_is_rejected_is_not_counted(store: Store) -> None:
    born, goal = a_plan_seed(PLAN), a_goal(tenant="acme")

    assert store.commit([Write(goals.refuse(born, goal, Rejected("unsafe", ())))]) == ["ok"]

    assert store.fields(PARTITION.tenants) == {}


def test_the_end_of_a_plan_that_was_never_counted_leaves_no_debt(real: Real) -> None:
    create(real, a_step("a"), tenant="acme")
    real.client.delete(PARTITION.tenants)

    real.commit([Write(done(real, "a"))])

    assert real.fields(PARTITION.tenants) == {}


def test_an_ended_plan_that_is_looked_at_is_still_forgotten_in_time(store: Store) -> None:
    create(store, a_step("a"))
    store.commit([Write(done(store, "a"))])
    ended = begin(store).record.times["ended"]

    for _ in range(2):
        store.commit([Write(upkeep.apply(begin(store)))])
        (due,) = store.members(PARTITION.timers).values()
        assert abs(due - ended - 1000 * RETENTION_S) <= 65_000  # a minute after its keys


def test_data_that_are_older_than_the_worker_knows_them_take_no_commit(real: Real) -> None:
    create(real, a_step("a"))
    change = done(real, "a")
    real.commits.note(PLAN, 50)
    before = real.everything()

    with pytest.raises(RolledBack):
        real.commit([Write(change)])

    assert real.everything() == before


def test_a_decision_that_a_wider_order_overtook_is_stale(real: Real) -> None:
    create(real, a_step("a"), a_step("b", "a"))
    store = PlanStore(real.client, PARTITION, "me", RETENTION_S, real.commits)
    with store.talk() as talk:
        talk.begin([Ask(PLAN, ["a"])])
        (plan,) = talk.snapshots([Ask(PLAN, ["a"])])
        assert isinstance(plan, HotPlan)
        view = talk.view(plan, Ask(PLAN, ["a"]))
        stand = ("FCALL", functions.PAUSE_SCOPE, 1, PARTITION.scopes, 0, "pause all", PAUSE)
        functions.call(real.client, *stand)
        talk.commit([Write(outcomes.apply(view, [a_report("a")]))])

        assert talk.verdicts() == ["stale"]

    view = begin(real, "a")
    assert view.standing is not None
    assert view.standing.scope == "all"


def test_orders_that_stand_are_lifted_by_name_and_all_are_counted(real: Real) -> None:
    def stand(*args: Any) -> Any:
        return functions.call(real.client, "FCALL", functions.PAUSE_SCOPE, 1, PARTITION.scopes, *args)

    assert stand(0, "pause all", PAUSE, "halt tenant:acme", PAUSE) == 0
    assert stand(2, "pause all", "halt all") == 1

    assert real.fields(PARTITION.scopes) == {"halt tenant:acme": PAUSE, "commands": b"2"}


def test_the_lock_of_orders_is_held_renewed_and_given_back_by_its_holder_alone(real: Real) -> None:
    def hold(token: str, ms: int) -> Any:
        return functions.call(real.client, "FCALL", functions.HOLD_LOCK, 1, keys.COMMANDS_LOCK, token, ms)

    assert [hold("me", 5000), hold("me", 9000), hold("you", 5000), hold("you", 0)] == [1, 1, 0, 0]
    assert real.client.pttl(keys.COMMANDS_LOCK) > 5000
    assert hold("me", 0) == 1
    assert hold("you", 5000) == 1


def test_a_day_grants_no_more_than_it_has_and_a_top_up_counts_once(real: Real) -> None:
    key = keys.day_grants(1, TENANT)

    def given(wanted: int) -> Any:
        return functions.call(real.client, "FCALL", functions.GRANT, 1, key, 1000, wanted, 60)

    assert [given(600), given(600), given(600)] == [600, 400, 0]
    for _ in range(2):
        functions.call(real.client, "FCALL", functions.TOP_UP, 1, key, "order-1", 500, 60)
    assert [given(600), given(600)] == [500, 0]
    assert 0 < real.client.ttl(key) <= 60


def test_a_commit_for_a_queue_that_is_no_stream_changes_nothing(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a", queue="odd"))
    store.put(PARTITION.steps("odd"), "not a stream")
    change = done(store, "a")
    before = store.everything()

    (verdict,) = store.commit([Write(change)])

    assert isinstance(verdict, ResponseError)
    assert "is not a stream" in str(verdict)
    assert store.everything() == before


def test_an_attempt_ends_although_its_queue_is_no_stream_any_more(real: Real) -> None:
    create(real, a_step("a"))
    real.put(QUEUE, "not a stream")

    (verdict,) = real.commit([Write(done(real, "a"))])

    assert verdict == "ok"
    assert real.fields(KEYS.plan)["state"] == b"COMPLETED"


def test_an_attempt_ends_although_nothing_can_be_counted_for_its_controller(real: Real) -> None:
    create(real, a_step("a"), a_step("b", "a"))
    (spec,) = real.specs(QUEUE)
    real.set_field(spec["lease_key"], "controller", "ada")
    change = done(real, "a")
    real.put(PARTITION.worked(change.now // DAY_MS), "no hash")

    assert real.commit([Write(change)]) == ["ok"]
    assert [each["step_id"] for each in real.specs(QUEUE)] == ["b"]  # the spec of the attempt has left the queue


@pytest.mark.parametrize(("length", "is_counted"), [(200, True), (201, False)])
def test_no_work_is_counted_for_a_name_that_no_heartbeat_takes(real: Real, length: int, is_counted: bool) -> None:
    create(real, a_step("a"))
    (spec,) = real.specs(QUEUE)
    real.set_field(spec["lease_key"], "controller", "n" * length)
    change = done(real, "a")

    assert real.commit([Write(change)]) == ["ok"]
    assert bool(real.client.exists(PARTITION.worked(change.now // DAY_MS))) is is_counted


def test_an_expiry_is_not_committed_when_its_lease_was_renewed_meanwhile(real: Real) -> None:
    create(real, a_step("a"), wall_clock_s=86_400)
    (spec,) = real.specs(QUEUE)
    beat = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")
    functions.call(real.client, *beat)
    real.client.hincrby(spec["lease_key"], "renewed", -20_000)  # a while ago
    view = begin(real, "a", leases=True)
    view.now = view.leases["a"].renewed + SILENT_MS
    change = upkeep.apply(view)
    assert functions.call(real.client, *beat)[0] == b"continue"

    real.commit([Write(change)])

    assert begin(real, "a").active["a"].attempt == 1


def test_a_paused_attempt_is_claimed_by_nobody_until_it_goes_on(real: Real) -> None:
    create(real, a_step("a"), a_step("b"))
    specs = real.specs(QUEUE)

    def beat(number: int) -> Any:
        spec = specs[number]
        call = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")
        return functions.call(real.client, *call)[0]

    assert beat(0) == b"continue"
    real.commit([Write(Changeset(PLAN, 1, 0, changed=True, actions={"a": "pause", "b": "pause"}))])

    assert [beat(0), beat(1)] == [b"pause", b"pause"]
    leases = begin(real, "a", "b", leases=True).leases
    assert (leases["a"].renewed > 0, leases["b"]) == (True, Lease(1, 0, 0))
    real.commit([Write(Changeset(PLAN, 2, 0, changed=True, actions={"a": "continue", "b": "continue"}))])
    assert [beat(0), beat(1)] == [b"continue", b"continue"]
    again = begin(real, "b", leases=True).leases["b"]
    assert (again.claimed > 0, again.controller) == (True, "ctl-1")


def test_an_attempt_is_cancelled_at_the_limit_of_its_tool_calls_if_its_controller_counts_them(real: Real) -> None:
    limited = {"tool_calls": 4}
    create(real, a_step("a").model_copy(update=limited), a_step("b"))

    def beat(step: str, *calls: Any) -> bytes:
        spec = next(each for each in real.specs(QUEUE)[::-1] if each["step_id"] == step)
        call = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], spec["attempt"], spec["lease"], "ctl-1", "", "{}")
        found: bytes = functions.call(real.client, *call, *calls)[0]
        return found

    assert [beat("a"), beat("a", "", 3), beat("a", "", "many"), beat("b", "", 99)] == [b"continue"] * 4
    assert beat("a", "", 4) == b"cancel"
    assert "claim" not in real.fields(real.specs(QUEUE)[0]["lease_key"])
    assert "tool_calls" not in real.specs(QUEUE)[0]
    lease = begin(real, "a").active["a"].lease
    real.commit([Write(outcomes.apply(begin(real, "a"), [a_failure("a", 1, lease)]))])
    assert [beat("a", "", 3), beat("a", "", 5)] == [b"continue", b"cancel"], "the next attempt has the limit, too"


def test_a_controllers_name_takes_no_more_than_its_place_in_a_lease(real: Real) -> None:
    create(real, a_step("a"))
    (spec,) = real.specs(QUEUE)
    beat = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"])

    answers = [functions.call(real.client, *beat, name)[0] for name in ("x" * 10_000, "x" * 10_000, "y")]

    assert answers == [b"continue", b"continue", b"taken"]
    assert real.client.hget(spec["lease_key"], "controller") == b"x" * 200


@pytest.mark.parametrize(
    ("asked", "lasts_s"),
    [
        (None, 60),
        ("", 60),
        ("60", 60),
        ("300", 300),
        ("300.9", 300),
        ("900", 900),
        ("0", 60),
        ("901", 900),
        ("9" * 15, 900),
        ("9" * 400, 60),
        ("-300", 60),
        ("1e3", 60),
        ("nan", 60),
        ("five", 60),
        ("\0" + "300", 60),
    ],
)
def test_a_controller_may_ask_once_for_longer_than_a_minute(real: Real, asked: str | None, lasts_s: int) -> None:
    create(real, a_step("a"))
    (spec,) = real.specs(QUEUE)
    beat = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")

    answers = [
        functions.call(real.client, *beat, *more)[2] for more in ([asked] if asked is not None else [], ["700"], [])
    ]

    assert answers == [1000 * lasts_s] * 3  # what a renewal asks for is not heard
    assert begin(real, "a", leases=True).leases["a"].ttl in (1000 * lasts_s, 0)
    assert functions.call(real.client, *beat[:-1], "other", "800")[0] == b"taken"


def test_a_pause_keeps_no_ttl_either(real: Real) -> None:
    create(real, a_step("a"))
    (spec,) = real.specs(QUEUE)
    beat = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")
    real.commit([Write(Changeset(PLAN, 1, 0, changed=True, actions={"a": "pause"}))])

    assert functions.call(real.client, *beat, "300") == [b"pause", 1000, 60_000]
    real.commit([Write(Changeset(PLAN, 2, 0, changed=True, actions={"a": "continue"}))])

    assert functions.call(real.client, *beat, "120", '{"done":1}') == [b"continue", 1000, 120_000]


def test_a_round_without_plans_reads_the_replies_of_what_goes_beside_it(real: Real) -> None:
    real.client.hset(PARTITION.scopes, "pause all", PAUSE)
    store = PlanStore(real.client, PARTITION, "me", RETENTION_S, real.commits)

    with store.talk() as talk:
        talk.beside([("HINCRBY", PARTITION.stats, "applied", 1), ("HINCRBY", PARTITION.scopes, "pause all", 1)])
        with pytest.raises(ResponseError):
            talk.verdicts()


def fail_in_a_talk(client: Any) -> None:
    with functions.Talk(client) as talk:
        talk.send([("ECHO", "first"), ("ECHO", "late"), ("ECHO", "later")])
        talk.receive(1)
        raise OSError("a bug")


def test_an_error_inside_of_a_talk_leaves_its_connection_to_the_next_one(real: Real, redis_url: str) -> None:
    connects = clients.Connects()
    with clients.connect(redis_url, connects=connects) as client:
        with pytest.raises(OSError, match="a bug"):
            fail_in_a_talk(client)

        assert functions.call(client, "ECHO", "next") == b"next"
        assert connects.count == 1


def test_a_server_without_the_functions_says_so_and_keeps_everything(real: Real) -> None:
    create(real, a_step("a"))
    change = done(real, "a")
    before = real.everything()
    real.client.function_flush()

    with pytest.raises(FunctionsMissing):
        real.commit([Write(change)])

    assert real.everything() == before
    functions.load(real.client)
    assert real.commit([Write(change)]) == ["ok"]


def test_a_server_without_the_functions_gives_no_slice(real: Real) -> None:
    create(real, a_step("a"))
    real.client.function_flush()

    with pytest.raises(FunctionsMissing):
        begin(real, "a")


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def test_a_library_of_a_newer_version_is_not_replaced(real: Real) -> None:
    newer = "#!lua name=planner_leases\n-- version 1000\nredis.register_function('planner_heartbeat', function() end)"
    real.client.function_load(newer, replace=True)

    functions.load(real.client)

    assert functions.call(real.client, "FCALL", "planner_heartbeat", 0) is None


def test_what_is_remembered_of_flaky_tests_stays_bounded_and_is_forgotten(real: Real) -> None:
    repo, partitions = "acme/shop", 1
    name = counters_of("default", repo)
    for number in range(100):  # of 100 sightings each: as many as 10 000 plans that found one
        sightings = [
            HistoryChange(name, f"{20_000 + each % 90} tests/test_{number}_{each}.py::test_{'x' * 260}", "", 1)
            for each in range(100)
        ]
        assert real.commit([Write(recalling(number, *sightings))]) == ["ok"]
    key = PARTITION.recall(name)
    seen = flaky_memory.read(real.client, partitions, "default", repo)

    assert real.client.hlen(key) == len(seen) == flaky_memory.MOST_COUNTERS
    assert real.client.memory_usage(key, samples=0) < 512 * 1024
    remembered = ("default", repo, len({each.test for each in seen}), sum(each.times for each in seen))
    assert [*flaky_memory.list_repositories(real.client, partitions)] == [remembered]
    assert flaky_memory.add(real.client, partitions, "default", repo, [Sighting(20_000, "one more", 1)]) == 1
    assert flaky_memory.forget(real.client, partitions, "other", repo) == 0

    assert flaky_memory.forget(real.client, partitions, "default", repo, seen[0].test) == 1
    assert flaky_memory.forget(real.client, partitions, "default", repo) == len(seen) - 1
    assert not real.client.exists(key)
    assert [*flaky_memory.list_repositories(real.client, partitions)] == []
    assert flaky_memory.add(real.client, partitions, "default", repo, seen[:9]) == 0
    assert flaky_memory.read(real.client, partitions, "default", repo) == seen[:9]


def recording(number: int, *records: RecordedAttempt, now: int = EPOCH_MS) -> Changeset:
    (change,) = a_plan(a_step("a"), plan=plan_id(number), now=now)
    change.memory += records
    return change


def test_what_attempts_came_to_is_kept_newest_first(store: Store) -> None:
    records = [RecordedAttempt("acme:shop:f", b"[1]"), RecordedAttempt("acme:shop:f", b"[2]")]
    assert store.commit([Write(recording(1, *records, RecordedAttempt("acme:none:f", b"")))]) == ["ok"]

    everything = store.everything()
    assert everything[PARTITION.memory("acme:shop:f")] == [b"[2]", b"[1]"]
    assert PARTITION.memory("acme:none:f") not in everything


def test_of_a_fingerprint_no_more_than_the_newest_records_are_kept(real: Real) -> None:
    client: Any = real.client
    for number in range(1, 44):
        records = [RecordedAttempt("acme:shop:f", b"[%d,%d]" % (EPOCH_MS // DAY_MS, each)) for each in range(48)]
        assert real.commit([Write(recording(number, *records))]) == ["ok"]
        assert client.llen(PARTITION.memory("acme:shop:f")) <= 2000

    assert client.lrange(PARTITION.memory("acme:shop:f"), 0, 0) == [b"[%d,47]" % (EPOCH_MS // DAY_MS)]
    assert client.llen(PARTITION.memory("acme:shop:f")) >= 1900
    assert 90 * DAY_MS // 1000 < client.ttl(PARTITION.memory("acme:shop:f")) <= 120 * DAY_MS // 1000


def test_a_plan_that_begins_drops_records_of_90_days_and_has_the_others_last(real: Real) -> None:
    client, today, key = cast("Any", real.client), EPOCH_MS // DAY_MS, PARTITION.memory("acme:shop:f")
    records = [RecordedAttempt("acme:shop:f", b"[%d,0]" % (today - age)) for age in (200, 91, 90, 1)]
    assert real.commit([Write(recording(1, *records))]) == ["ok"]
    client.expire(key, 60)

    assert real.commit([Write(recording(2, RecordedAttempt("acme:shop:f", b"")))]) == ["ok"]
    assert client.lrange(key, 0, -1) == [b"[%d,0]" % (today - age) for age in (1, 90)]
    assert client.ttl(key) > 60


def test_records_last_if_a_plan_begins_in_the_call_in_which_an_attempt_of_another_one_ends(real: Real) -> None:
    client, today, key = cast("Any", real.client), EPOCH_MS // DAY_MS, PARTITION.memory("acme:shop:f")
    ended = [RecordedAttempt("acme:shop:f", b"[%d,%d]" % (today, number)) for number in range(2)]
    assert real.commit([Write(recording(1, ended[0]))]) == ["ok"]
    client.expire(key, 60)

    begins = recording(3, RecordedAttempt("acme:shop:f", b""))
    assert real.commit([Write(recording(2, ended[1])), Write(begins)]) == ["ok"] * 2
    assert client.ttl(key) > 60


def test_a_tenant_has_so_many_fingerprints_and_the_one_goes_that_was_used_least_lately(real: Real) -> None:
    client: Any = real.client
    for number in range(100):
        change = recording(number + 1, RecordedAttempt(f"acme:{number}:f", b"[99999]"), now=EPOCH_MS + number)
        assert real.commit([Write(change)]) == ["ok"]
    used = recording(101, RecordedAttempt("acme:0:f", b""), now=EPOCH_MS + 200)
    new = recording(102, RecordedAttempt("acme:new:f", b"[99999]"), now=EPOCH_MS + 300)
    other = recording(103, RecordedAttempt("other:1:f", b"[99999]"), now=EPOCH_MS + 400)
    assert real.commit([Write(used)]) == ["ok"]
    assert real.commit([Write(new), Write(other)]) == ["ok"] * 2

    kept = {number for number in range(100) if client.exists(PARTITION.memory(f"acme:{number}:f"))}
    assert kept == {0, *range(2, 100)}
    assert client.exists(PARTITION.memory("acme:new:f"), PARTITION.memory("other:1:f")) == 2
    assert client.zcard(PARTITION.memories("acme")) == 100
