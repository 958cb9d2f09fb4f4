"""The events of a process: handed to those who wait, each on its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis import Redis

from tests.support.event_reading import OTHER, PLAN, tell
from tests.support.servers import Server
from worker.gateway import event_hub
from worker.gateway.event_hub import EventHub, Subscription
from worker.gateway.event_streams import Event, Gap


@asynccontextmanager
async def a_hub(url: str, partitions: int = 1) -> AsyncIterator[EventHub]:
    hub = EventHub(url, partitions)
    try:
        yield hub
    finally:
        hub.end()
        await asyncio.to_thread(hub.join)


async def told(subscription: Subscription, count: int) -> list[str]:
    """What comes, by the names of events and the reasons of gaps."""
    found: list[str] = []
    while len(found) < count:
        item = await subscription.next(60)
        assert item, f"after {found} nothing came"
        found.append(item.what if isinstance(item, Event) else item.reason)
    return found


def test_each_gets_what_it_wants_of_all_partitions(redis: Redis, redis_url: str) -> None:
    async def run() -> None:
        async with (
            a_hub(redis_url, 2) as hub,
            hub.subscribe() as every,
            hub.subscribe(plans=[OTHER]) as one,
            hub.subscribe(goal=("acme", "g-1"), wants=lambda event: event.what == "plan.ready") as goal,
            hub.subscribe(goal=("globex", "g-1")) as nobody,
        ):
            tell(redis, "plan.ready")
            tell(redis, "plan.halted", OTHER, 1)
            assert await told(every, 2) == ["plan.ready", "plan.halted"]
            assert await told(one, 1) == ["plan.halted"]
            assert await told(goal, 1) == ["plan.ready"]
            assert await nobody.next(0.05) is None

    asyncio.run(run())


def test_the_verdict_of_an_outcome_is_known_by_its_entry(redis: Redis, redis_url: str) -> None:
    async def run() -> None:
        async with a_hub(redis_url) as hub, hub.subscribe(plans=[PLAN], wants=lambda e: e.verdict is not None) as mine:
            tell(redis, "plan.ready")
            tell(redis, "step.done", entry="1-1")
            tell(redis, "outcome.late", entry="1-2", verdict="late")
            found = [await mine.next(10) for _ in range(2)]
            assert [isinstance(each, Event) and each.verdict for each in found] == ["applied", "late"]

    asyncio.run(run())


def test_a_thousand_wait_in_one_process(redis: Redis, redis_url: str) -> None:
    async def wait(hub: EventHub, number: int) -> str:
        async with hub.subscribe(goal=("acme", f"g-{number}")) as mine:
            return (await told(mine, 1))[0]

    async def run() -> None:
        async with a_hub(redis_url) as hub:
            waiting = [asyncio.create_task(wait(hub, number)) for number in range(1000)]
            await hub.position()
            await asyncio.sleep(0)
            await asyncio.to_thread(tell_all)  # the loop has to read meanwhile
            assert set(await asyncio.gather(*waiting)) == {"goal.decided"}

    def tell_all() -> None:
        for number in range(1000):
            tell(redis, "goal.decided", goal_id=f"g-{number}")

    connections = len(redis.client_list())
    asyncio.run(run())

    assert len(redis.client_list()) <= connections


def test_who_does_not_read_hears_of_a_gap_and_no_other_notices(
    redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "HELD_BYTES", 5000)

    async def run() -> None:
        async with a_hub(redis_url) as hub, hub.subscribe() as slow, hub.subscribe() as quick:
            for number in range(50):
                tell(redis, "plan.ready", revision=number)
                await told(quick, 1)
            held = await slow.batch(1)
            assert isinstance(held[0], Gap)
            assert held[0].reason == "overrun"
            assert 0 < len(held) < 20
            assert [each.data["revision"] for each in held[1:] if isinstance(each, Event)][-1] == 49
            assert await quick.next(0.05) is None

    asyncio.run(run())


def test_the_end_wakes_who_waits(redis_url: str) -> None:
    async def run() -> float:
        async with a_hub(redis_url) as hub, hub.subscribe() as waiting:
            asyncio.get_running_loop().call_later(0.05, hub.end)
            began = time.monotonic()
            assert await waiting.next(30) is None
            assert waiting.is_over
            return time.monotonic() - began

    assert asyncio.run(run()) < 5


@pytest.mark.outages
def test_a_server_that_comes_back_goes_on_without_a_gap_and_one_that_lost_data_with_one(tmp_path: Any) -> None:
    async def run(server: Server) -> None:
        async with a_hub(server.url) as hub, hub.subscribe() as mine:
            with server.client() as redis:
                tell(redis, "plan.ready")
                assert await told(mine, 1) == ["plan.ready"]
            server.kill()
            await asyncio.sleep(0.5)
            server.start()
            with server.client() as redis:
                tell(redis, "plan.executing")
                assert await told(mine, 1) == ["plan.executing"]
                redis.flushall()
                assert await told(mine, 1) == ["rolled_back"]
                tell(redis, "plan.completed")
                assert await told(mine, 1) == ["plan.completed"]

    with Server(tmp_path / "redis") as server:
        asyncio.run(run(server))
