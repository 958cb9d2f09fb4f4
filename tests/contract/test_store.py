"""What a store of plans promises: one suite for the dict fake and for the functions on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Protocol

import pytest
from redis.exceptions import ResponseError

from schemas import codec
from tasks import outcomes, upkeep
from tasks.change import Change
from tasks.policy.dispatch import SILENT_MS
from tasks.view import WINDOW, Lease, Slice
from tests.support.memory_store import MemoryStore, Stream
from tests.support.plans import PARTITION, PLAN, a_failure, a_plan, a_report, a_step, plan_id, some_steps
from worker import clients
from worker.store import functions
from worker.store.functions import FunctionsMissing
from worker.store.keys import CONTROLLERS, GROUP
from worker.store.plans import Ask, Begun, NoSlice, PlanStore, Write

KEYS = PARTITION.plan(PLAN)
QUEUE = PARTITION.steps("default")
RETENTION_S = 3600


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


class Memory(MemoryStore):
    def fields(self, key: str) -> dict[str, Any]:
        return dict(self.hash(key))

    members = fields

    def listed(self, key: str) -> list[bytes]:
        return list(self.items(key))

    def specs(self, queue: str) -> list[dict[str, Any]]:
        return [codec.loads(fields[b"data"]) for fields in self.stream(queue).entries.values()]

    def read(self, stream: str, group: str) -> list[bytes]:
        found = self.stream(stream)
        found.groups[group] = set(found.entries)
        return list(found.entries)

    def pending(self, stream: str, group: str) -> int:
        return len(self.stream(stream).groups[group])

    def report(self, data: bytes) -> bytes:
        entry: bytes = self.stream(PARTITION.outcomes).add({b"data": data})
        return entry

    def put(self, key: str, text: str) -> None:
        self.keys[key] = text

    def end_lock(self, plan: str) -> None:  # noqa: ARG002 (time passes for all plans)
        self.wait(5000)

    def goes_in_s(self, key: str) -> int | None:
        return (self.expires[key] - self.now) // 1000 if key in self.expires else None

    def everything(self) -> dict[str, Any]:
        return deepcopy({key: value for key, value in self.keys.items() if value and value != Stream()})


class Real:
    def __init__(self, client: Any) -> None:
        self.client = client
        functions.load(client)

    def begin(self, asks: Sequence[Ask], token: str = "me") -> list[Begun]:
        with PlanStore(self.client, PARTITION, token, RETENTION_S).talk() as talk:
            talk.begin(asks)
            return talk.slices(asks)

    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]:
        return PlanStore(self.client, PARTITION, "me", RETENTION_S).commit(writes)

    def fields(self, key: str) -> dict[str, Any]:
        return {name.decode(): value for name, value in self.client.hgetall(key).items()}

    def members(self, key: str) -> dict[str, int]:
        return {name.decode(): int(score) for name, score in self.client.zrange(key, 0, -1, withscores=True)}

    def listed(self, key: str) -> list[bytes]:
        found: list[bytes] = self.client.lrange(key, 0, -1)
        return found

    def specs(self, queue: str) -> list[dict[str, Any]]:
        return [codec.loads(fields[b"data"]) for _, fields in self.client.xrange(queue)]

    def read(self, stream: str, group: str) -> list[bytes]:
        if group == GROUP:
            self.client.xgroup_create(stream, group, id="0")
        found: Any = self.client.xreadgroup(group, "reader", {stream: ">"})
        return [entry for _, entries in found for entry, _ in entries]

    def pending(self, stream: str, group: str) -> int:
        found: Any = self.client.xpending(stream, group)
        return int(found["pending"])

    def report(self, data: bytes) -> bytes:
        entry: bytes = self.client.xadd(PARTITION.outcomes, {"data": data})
        return entry

    def put(self, key: str, text: str) -> None:
        self.client.delete(key)
        self.client.set(key, text)

    def end_lock(self, plan: str) -> None:
        self.client.hset(PARTITION.plan(plan).plan, "lock", "other 1")

    def goes_in_s(self, key: str) -> int | None:
        left = self.client.ttl(key)
        return left if left >= 0 else None

    def everything(self) -> dict[str, Any]:
        return {key.decode(): self._value(key) for key in self.client.scan_iter()}

    def _value(self, key: bytes) -> Any:
        readers = {
            b"hash": self.client.hgetall,
            b"zset": lambda key: self.client.zrange(key, 0, -1, withscores=True),
            b"list": lambda key: self.client.lrange(key, 0, -1),
            b"stream": lambda key: (self.client.xrange(key), self.client.xinfo_groups(key)),
            b"string": self.client.get,
        }
        return readers[self.client.type(key)](key)


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        yield Memory(PARTITION, RETENTION_S)
    else:
        with clients.connect(request.getfixturevalue("redis_url")) as client:
            yield Real(client)


@pytest.fixture
def real(redis_url: str) -> Any:
    with clients.connect(redis_url) as client:
        yield Real(client)


def create(store: Store, *steps: Any, plan: str = PLAN, **limits: int) -> None:
    changes = a_plan(*steps, plan=plan, **limits)
    assert store.commit([Write(change) for change in changes]) == ["ok"] * len(changes)
    if changes[-1].more:
        store.commit([Write(outcomes.apply(begin(store, plan=plan), ()))])


def begin(store: Store, *steps: str, plan: str = PLAN, leases: bool = False) -> Slice:
    (view,) = store.begin([Ask(plan, steps, leases=leases)])
    assert isinstance(view, Slice)
    return view


def done(store: Store, *steps: str, plan: str = PLAN) -> Change:
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
    assert store.begin([Ask(PLAN, ["a"])]) == [NoSlice.GONE]
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

    assert store.begin([Ask(PLAN)], token="other") == [NoSlice.BUSY]
    assert isinstance(store.begin([Ask(PLAN)])[0], Slice)


def test_a_lock_ends_with_the_commit(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a"))
    store.commit([Write(done(store, "a"))])

    assert isinstance(store.begin([Ask(PLAN)], token="other")[0], Slice)


def test_a_lock_runs_out_by_itself(store: Store) -> None:
    create(store, a_step("a"))
    begin(store)
    store.end_lock(PLAN)

    assert isinstance(store.begin([Ask(PLAN)], token="other")[0], Slice)


def test_a_change_that_only_acknowledges_leaves_the_version_and_gives_the_lock_back(store: Store) -> None:
    create(store, a_step("a"))
    view = begin(store, "zz")
    change = outcomes.apply(view, [a_report("zz")])

    assert store.commit([Write(change)]) == ["ok"]
    assert version(store) == 1
    assert isinstance(store.begin([Ask(PLAN)], token="other")[0], Slice)


def test_begin_names_only_what_a_decision_can_touch(store: Store) -> None:
    create(store, a_step("a"), a_step("b", "a"), a_step("c", "a", "b"), a_step("z", "b"), max_parallel=1)

    view = begin(store, "a")

    assert set(view.steps) == {"a", "b", "c"}
    assert view.steps["a"].spec
    assert view.steps["b"].spec
    assert view.steps["c"].spec is None  # one end cannot make it ready: it waits for two
    assert view.windows["a", 0].dependents == ["b", "c"]
    assert not view.windows["a", 0].more


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


def test_work_left_over_is_taken_from_the_head_and_added_at_the_tail(store: Store) -> None:
    create(store, a_step("a"), a_step("b"), max_parallel=1)
    push = Change(PLAN, 1, 0, changed=True, todo_push=[("a", n) for n in range(11)])
    store.commit([Write(push)])

    view = begin(store)
    store.commit([Write(Change(PLAN, 2, 0, changed=True, todo_pop=len(view.todo), todo_push=[("b", 7)]))])

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

    store.commit([Write(Change(PLAN, 1, 0, changed=True))])
    left = store.members(PARTITION.timers)
    store.commit([Write(Change(PLAN, 2, 0, changed=True, wake=77))])
    moved = store.members(PARTITION.timers)
    store.commit([Write(Change(PLAN, 3, 0, changed=True, wake=0))])

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
    (forgotten_at,) = store.members(PARTITION.timers).values()
    assert forgotten_at > begin(store).now + 1000 * (RETENTION_S - 5)


def test_a_late_message_does_not_keep_an_ended_plan(store: Store) -> None:
    create(store, a_step("a"))
    store.commit([Write(done(store, "a"))])

    store.commit([Write(outcomes.apply(begin(store, "a"), [a_failure("a", 1)]))])

    assert store.goes_in_s(KEYS.plan)


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


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("starts", 2),  # a count that the arguments do not bear out
        ("acks", 1),
        ("queue", 99),  # a place beyond KEYS
        ("queue", "x"),
    ],
)
def test_a_commit_whose_arguments_do_not_fit_changes_nothing(real: Real, place: str, value: Any) -> None:
    (change,) = a_plan(a_step("a"))
    call = list(PlanStore(real.client, PARTITION, "me", RETENTION_S).commit_call(Write(change)))
    counts = 3 + call[2] + 9
    start = counts + 12 + 2 * sum(call[counts : counts + 4]) + call[counts + 4] + 5 * call[counts + 5]
    call[{"starts": counts + 6, "acks": counts + 10, "queue": start + 1}[place]] = value

    with pytest.raises(ResponseError, match="planner commit"):
        functions.call(real.client, *call)

    assert real.everything() == {}


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
