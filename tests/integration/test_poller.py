"""A worker leaves a partition to its owner, but for what its own pool was left with, and forgets what it knew of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from schemas import codec
from tasks.routes import CALLBACKS, GOALS, OUTCOMES, UPKEEP
from tests.conftest import wait_until
from tests.support.engine import a_goal, plan
from tests.support.messages import answer, report, specs
from tests.support.proxy import When, running_proxy
from tests.support.stored import P0, stats, waiting
from worker.engine.engine import Engine
from worker.process import jobs, partition_engines
from worker.process.hands import Hands
from worker.process.idle_drain import MOST_AT_ONCE, IdleDrain, count_of
from worker.process.ownership import Owner
from worker.process.partition_engines import engine_of
from worker.process.poller import Poller
from worker.process.reader import Reader
from worker.process.wakeup_ledger import Key, WakeupState
from worker.process.watches import watches
from worker.store import functions, keys
from worker.store.keys import GROUP, Partition
from worker.telemetry.outage import Outage

WORK = Key(OUTCOMES.task, (0,))
P1, P2 = Partition(1), Partition(2)


@contextmanager
def working(url: str, owner: Owner | Mock, partitions: int = 1) -> Iterator[Mock]:
    """Run poller and reader of a worker that knows of such an owner of everything; yields who sends its wake-ups.

    A mock in the place of the owner is asked each time.
    """
    wakeups, ownership, parts = Mock(), Mock(), [Partition(number) for number in range(partitions)]
    wakeups.state.return_value = WakeupState.FREE
    wakeups.send.return_value = True
    wakeups.under_way.return_value = set()
    ownership.of.side_effect = owner if isinstance(owner, Mock) else lambda _: owner
    ownership.all.side_effect = lambda: {part.number: ownership.of(part.number) for part in parts}
    both, hands = (url, Outage("store"), wakeups, ownership), Hands()
    consumed = frozenset({GOALS.task, OUTCOMES.task, CALLBACKS.task})
    threads: list[Poller | Reader] = [
        Poller(*both, hands, watches(consumed, parts), 30_000),
        Reader(*both, hands, parts),
    ]
    for one in threads:
        one.start()
    try:
        yield wakeups
    finally:
        for one in threads:
            one.stop()
        for one in threads:
            one.join(10)


@pytest.fixture(autouse=True)
def engines(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engines of this process be new ones, on the server of the test."""
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setattr(partition_engines, "_engines", {})
    monkeypatch.setattr(partition_engines, "_containers", {})


def woken(wakeups: Mock) -> list[Key]:
    return [call.args[0] for call in wakeups.send.call_args_list]


@pytest.mark.parametrize("owner", [Owner.ELSEWHERE, Owner.NOBODY])
def test_what_the_pool_of_a_worker_was_left_with_goes_to_that_pool(
    redis_url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [True]
    monkeypatch.setattr(jobs, "is_some_left", lambda: bool(left))
    monkeypatch.setattr(jobs, "take_left", lambda key: key == WORK and bool(left) and left.pop())

    with working(redis_url, owner) as wakeups:
        wait_until(lambda: WORK in woken(wakeups), what="a wake-up")

    assert [call.kwargs for call in wakeups.send.call_args_list if call.args == (WORK,)] == [{"is_own": True}]


@pytest.mark.parametrize("owner", Owner)
def test_news_of_each_stream_wakes_its_work_but_for_outcomes_and_commands_of_others(
    redis_url: str, redis: Redis, owner: Owner
) -> None:
    functions.load(redis)
    with working(redis_url, owner, partitions=2) as wakeups:
        wait_until(lambda: redis.exists(keys.GOALS, P1.outbox, P1.outcomes) == 3, what="the groups are there")
        wakeups.send.reset_mock()
        for stream in (P1.commands, P1.outbox, P1.outcomes):
            redis.xadd(stream, {"data": "{}"})
        wait_until(lambda: Key(CALLBACKS.task, (1,)) in woken(wakeups), what="a wake-up")
        if owner is not Owner.ELSEWHERE:
            wait_until(lambda: Key(OUTCOMES.task, (1,)) in woken(wakeups), what="a wake-up for commands")

        assert (Key(OUTCOMES.task, (1,)) in woken(wakeups)) is (owner is not Owner.ELSEWHERE)
        assert Key(OUTCOMES.task, (0,)) not in woken(wakeups)
        if owner is Owner.HERE:
            wait_until(lambda: redis.xlen(P1.outcomes) == 0, what="the reader has dropped what it cannot read")


def test_a_clock_that_runs_out_in_one_of_many_partitions_wakes_its_upkeep(redis_url: str, redis: Redis) -> None:
    functions.load(redis)
    with working(redis_url, Owner.HERE, partitions=8) as wakeups:
        wait_until(lambda: Key(UPKEEP.task, (7,)) in woken(wakeups), what="the first sweep")
        wakeups.send.reset_mock()
        redis.zadd(Partition(5).timers, {"plan": 1})

        wait_until(lambda: Key(UPKEEP.task, (5,)) in woken(wakeups), what="the upkeep of that partition")
        assert {key.args for key in woken(wakeups) if key.task == UPKEEP.task} == {(5,)}


def test_plans_of_a_partition_that_another_worker_owns_are_not_kept(redis_url: str, redis: Redis) -> None:
    with engine_of(0) as here:
        plan(here, redis, a_goal(2))
        for spec in specs(redis):
            redis.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
        here.context(0).engine.drain()
        hot: Any = here.context(0).store.hot
        assert len(hot) == 1
    asked = Mock(return_value=Owner.HERE)
    with working(redis_url, asked):
        wait_until(lambda: redis.xinfo_groups(P0.outcomes), what="the reader reads")
        wait_until(lambda: asked.call_count > 10, what="it goes round")
        asked.configure_mock(return_value=Owner.ELSEWHERE)
        wait_until(lambda: not len(hot), what="nothing is known of the plan")


@pytest.mark.parametrize("owner", [Owner.ELSEWHERE, Owner.NOBODY])
def test_what_was_read_and_never_arrived_is_applied_though_the_partition_is_another_workers_meanwhile(
    redis_url: str, redis: Redis, owner: Owner
) -> None:
    with engine_of(0) as here:
        plan(here, redis, a_goal(2))
    (spec,) = specs(redis)
    asked = Mock(return_value=Owner.HERE)
    with running_proxy(redis_url) as proxy, working(proxy.url, asked):
        trap = proxy.trap("^XREADGROUP .*outcomes", When.AFTER, lambda: asked.configure_mock(return_value=owner))
        report(redis, answer(spec))
        assert trap.sprung.wait(60)

        wait_until(lambda: stats(redis).get("applied"), what="the outcome is applied")  # no worker takes it over here

    assert stats(redis)["applied"] == 1
    assert waiting(redis) == (0, 0)


def test_a_group_that_is_lost_is_made_again_and_news_are_read(redis_url: str, redis: Redis) -> None:
    functions.load(redis)
    with working(redis_url, Owner.HERE, partitions=2):
        wait_until(lambda: redis.exists(P1.outcomes) and redis.xinfo_groups(P1.outcomes), what="the group is there")
        redis.xgroup_destroy(P1.outcomes, GROUP)
        redis.xadd(P1.outcomes, {"data": codec.dumps({})})

        wait_until(lambda: redis.xlen(P1.outcomes) == 0, what="the outcome is read")


def test_an_error_of_one_partition_keeps_no_outcome_of_another_one(redis_url: str, redis: Redis) -> None:
    functions.load(redis)
    redis.set(P0.commits, "no hash")  # each engine compares it first
    with working(redis_url, Owner.HERE, partitions=2):
        for _ in range(3):
            redis.xadd(P1.outcomes, {"data": "{}"})
            wait_until(lambda: redis.exists(P1.outcomes) and not redis.xlen(P1.outcomes), what="the outcome is read")
        redis.delete(P0.commits)
        redis.xadd(P0.outcomes, {"data": "{}"})

        wait_until(lambda: not redis.xlen(P0.outcomes), what="the partition works again")


@pytest.mark.parametrize("begins", ["before", "while it works"])
def test_keys_of_another_type_stop_their_partition_alone(redis_url: str, redis: Redis, begins: str) -> None:
    functions.load(redis)
    streams = (P1.outcomes, P1.commands, P1.outbox)
    odd = (*streams, P1.timers, P1.events)
    if begins == "before":
        for key in odd:
            redis.set(key, "no stream")
    with working(redis_url, Owner.HERE, partitions=3) as wakeups:
        wait_until(lambda: redis.exists(P0.outcomes, P2.outcomes, P2.commands) == 3, what="the groups are there")
        for key in odd if begins != "before" else ():
            redis.set(key, "no stream")
        for part in (P0, P2):
            wakeups.send.reset_mock()
            for stream in (part.outcomes, part.commands, part.outbox):
                redis.xadd(stream, {"data": "{}"})
            redis.zadd(part.timers, {"plan": 1})
            wanted = {Key(task, (part.number,)) for task in (OUTCOMES.task, CALLBACKS.task, UPKEEP.task)}
            wait_until(lambda: wanted <= {*woken(wakeups)}, what="wake-ups")  # noqa: B023 (at once)
            wait_until(lambda: not redis.xlen(part.outcomes), what="outcomes are read")  # noqa: B023
        redis.delete(*odd)
        redis.xadd(P1.outcomes, {"data": "{}"})
        redis.xadd(P1.commands, {"data": "{}"})

        wait_until(lambda: Key(OUTCOMES.task, (1,)) in woken(wakeups), what="a wake-up")
        wait_until(lambda: not redis.xlen(P1.outcomes), what="the outcome is read")


def test_what_came_behind_a_lost_connection_in_one_reply_is_applied_at_once(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing, apply = list[str](), Engine.apply

    def apply_or_lose(engine: Engine, entries: Any, since: object) -> bool:
        if losing and entries:
            losing.clear()
            raise NoConnection("reset by peer")
        return apply(engine, entries, since)

    functions.load(redis)
    monkeypatch.setattr(Engine, "apply", apply_or_lose)
    with working(redis_url, Owner.HERE, partitions=3), redis.pipeline(transaction=True) as pipeline:
        for part in (P0, P1, P2):
            redis.xadd(part.outcomes, {"data": "{}"})
            pipeline.xadd(part.outcomes, {"data": "{}"})
        wait_until(lambda: _read(redis, 3), what="each engine has compared the server")
        losing.append("one reply")
        pipeline.execute()

        wait_until(lambda: not losing and _read(redis, 3), 15, "all of them are applied")


def _read(redis: Redis, partitions: int) -> bool:
    return not any(redis.xlen(Partition(number).outcomes) for number in range(partitions))


def test_an_engine_that_fails_in_a_partition_of_another_worker_keeps_no_outcome_of_an_own_one(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, apply = {0: Owner.HERE, 1: Owner.HERE}, Engine.apply

    def fail(engine: Engine, *args: Any) -> bool:
        if not engine.store.partition.number:
            raise OSError("the disk is full")
        return apply(engine, *args)

    functions.load(redis)
    redis.xgroup_create(P0.outcomes, GROUP, id="0", mkstream=True)
    monkeypatch.setattr(Engine, "apply", fail)
    asked = Mock(side_effect=lambda number: owner[number])
    with working(redis_url, asked, partitions=2):
        redis.xadd(P0.outcomes, {"data": "{}"})
        wait_until(lambda: redis.xpending(P0.outcomes, GROUP)["pending"], what="a read")
        owner[0] = Owner.ELSEWHERE
        asked.reset_mock()
        wait_until(lambda: asked.call_count > 10, what="it goes round")
        redis.xadd(P1.outcomes, {"data": "{}"})

        wait_until(lambda: not redis.xlen(P1.outcomes), what="the outcome is read")


def test_a_partition_with_large_entries_goes_to_the_pool_and_makes_no_later_read_smaller(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions.load(redis)
    monkeypatch.setattr(Engine, "apply", Mock(return_value=False))
    large, other = IdleDrain(P0), IdleDrain(P1)

    assert large.take([(b"1-0", [b"data", bytes(1_000_000)])], large.look)
    assert count_of([large, other]) < MOST_AT_ONCE
    large.forget_sizes()
    assert count_of([large, other]) == MOST_AT_ONCE


def test_a_read_of_many_partitions_has_a_bounded_number_of_outcomes() -> None:
    assert [count * count_of([Mock(count=MOST_AT_ONCE)] * count) for count in (1, 8, 64, 256)] == [64, 512, 512, 512]
