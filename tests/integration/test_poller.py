"""A poller leaves a partition to its owner, but for what its own pool was left with, and forgets what it knew of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis

from tasks.routes import OUTCOMES
from tests.conftest import wait_until
from tests.support.engine import a_goal, plan
from tests.support.messages import answer, report, specs
from tests.support.proxy import When, running_proxy
from tests.support.stored import P0, stats, waiting
from worker.process import jobs, partition_engines
from worker.process.idle_drain import IdleDrain
from worker.process.ownership import Owner
from worker.process.partition_engines import engine_of
from worker.process.poller import Poller
from worker.process.wakeup_ledger import Key, WakeupState
from worker.telemetry.outage import Outage

WORK = Key(OUTCOMES.task, (0,))


@contextmanager
def polling(url: str, owner: Owner | Mock, drain: IdleDrain | None = None) -> Iterator[Mock]:
    """Run a poller of partition 0 for a worker that knows of such an owner; yields who sends its wake-ups.

    A mock in the place of the owner is asked each time.
    """
    wakeups, ownership = Mock(), Mock()
    wakeups.state.return_value = WakeupState.FREE
    wakeups.send.return_value = True
    ownership.of.side_effect = owner if isinstance(owner, Mock) else lambda _: owner
    poller = Poller(
        url, Outage("store"), wakeups, P0.outcomes, OUTCOMES.task, "", (0,), ownership=ownership, drain=drain
    )
    poller.start()
    try:
        yield wakeups
    finally:
        poller.stop()
        poller.join(10)


@pytest.mark.parametrize("owner", [Owner.ELSEWHERE, Owner.NOBODY])
def test_what_the_pool_of_a_worker_was_left_with_goes_to_that_pool(
    redis_url: str, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [True]
    monkeypatch.setattr(jobs, "take_left", lambda _: left.pop() if left else False)

    with polling(redis_url, owner) as wakeups:
        wait_until(lambda: wakeups.send.called, what="a wake-up")

    wakeups.send.assert_called_once_with(WORK, is_own=True)


def test_plans_of_a_partition_that_another_worker_owns_are_not_kept(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setattr(partition_engines, "_engines", {})
    with engine_of(0) as here:
        plan(here, redis, a_goal(2))
        for spec in specs(redis):
            redis.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
        here.context(0).engine.drain()
        hot: Any = here.context(0).store.hot
        assert len(hot) == 1

    with polling(redis_url, Owner.ELSEWHERE, IdleDrain(P0)):
        wait_until(lambda: not len(hot), what="nothing is known of the plan")


@pytest.mark.parametrize("owner", [Owner.ELSEWHERE, Owner.NOBODY])
def test_what_was_read_and_never_arrived_is_applied_though_the_partition_is_another_workers_meanwhile(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch, owner: Owner
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setattr(partition_engines, "_engines", {})
    with engine_of(0) as here:
        plan(here, redis, a_goal(2))
    (spec,) = specs(redis)
    asked = Mock(return_value=Owner.HERE)
    with running_proxy(redis_url) as proxy, polling(proxy.url, asked, IdleDrain(P0)):
        trap = proxy.trap("^XREADGROUP .*outcomes", When.AFTER, lambda: asked.configure_mock(return_value=owner))
        report(redis, answer(spec))
        assert trap.sprung.wait(60)

        wait_until(lambda: stats(redis).get("applied"), what="the outcome is applied")  # no worker takes it over here

    assert stats(redis)["applied"] == 1
    assert waiting(redis) == (0, 0)
