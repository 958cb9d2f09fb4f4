"""A worker leaves a partition to its owner, but for what its own pool was left with, and forgets what it knew of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis

from schemas import codec
from tasks.routes import CALLBACKS, GOALS, OUTCOMES, UPKEEP
from tests.conftest import wait_until
from tests.support.engine import a_goal, plan
from tests.support.messages import answer, report, specs
from tests.support.proxy import When, running_proxy
from tests.support.stored import P0, stats, waiting
from worker.process import jobs, partition_engines
from worker.process.hands import Hands
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
P1 = Partition(1)


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
