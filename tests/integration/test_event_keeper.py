"""Events are cut by age and by bytes, off the way of commits."""

from __future__ import annotations

import time

import pytest
from redis import Redis

from worker.engine.engine import EventKeeper
from worker.store.keys import Partition
from worker.store.memory import ServerMemory

PART = Partition(0)


def tell(redis: Redis, count: int, first_ms: int, data: bytes = b"{}") -> None:
    pipeline = redis.pipeline()
    for number in range(count):
        pipeline.xadd(PART.events, {"type": "dev.planner.plan.ready.v1", "data": data}, id=f"{first_ms + number}-0")
    pipeline.execute()


def keeper(redis: Redis, kept_s: int) -> EventKeeper:
    return EventKeeper(redis, PART, ServerMemory(redis), kept_s)


def test_events_are_kept_for_their_time(redis: Redis) -> None:
    now = int(time.time() * 1000)
    tell(redis, 1000, now - 120_000)
    tell(redis, 1000, now - 10_000)
    kept = keeper(redis, 60)

    kept.cut()

    assert 1000 <= redis.xlen(PART.events) < 1200  # by whole pages
    tell(redis, 1, now)
    redis.xtrim(PART.events, maxlen=1, approximate=False)
    kept.cut()  # a moment later nothing is looked at
    assert redis.xlen(PART.events) == 1


def test_events_that_take_too_much_memory_go_before_their_time(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerMemory, "event_bytes", lambda _: 1_000_000)
    tell(redis, 5000, int(time.time() * 1000) - 6000, b"x" * 1000)

    keeper(redis, 3600).cut()

    assert 500_000 < (redis.memory_usage(PART.events, samples=0) or 0) <= 1_000_000


def test_a_partition_without_events_is_no_trouble(redis: Redis) -> None:
    keeper(redis, 60).cut()

    assert not redis.exists(PART.events)
