"""What a dead worker had read is found by those who live, wherever it stands among what is pending."""

from __future__ import annotations

from typing import Any

from redis import Redis

from tests.support.stored import P0
from worker.store.keys import GROUP
from worker.streams.inbox import BATCH_ENTRIES, Inbox

LOOKED_AT = 10 * BATCH_ENTRIES  # by the server at once, at most
IDLE_MS = 600_000


def fill(redis: Redis, consumer: str, count: int, *, idle_ms: int = 0) -> list[bytes]:
    """Have a consumer read new entries, `idle_ms` ago; returns their ids."""
    pipeline = redis.pipeline(transaction=False)
    for _ in range(count):
        pipeline.xadd(P0.outcomes, {"data": b"{}"})
    ids: Any = pipeline.execute()
    redis.xreadgroup(GROUP, consumer, {P0.outcomes: ">"})
    redis.xclaim(P0.outcomes, GROUP, consumer, 0, ids, idle=idle_ms, justid=True)
    return list(ids)


def owned(redis: Redis, consumer: str) -> list[bytes]:
    found: Any = redis.xpending_range(P0.outcomes, GROUP, "-", "+", 10_000, consumer)
    return [one["message_id"] for one in found]


def test_an_entry_of_a_dead_worker_is_found_behind_more_fresh_ones_than_a_look_sees(redis: Redis) -> None:
    inbox = Inbox(redis, P0.outcomes, "", "here")
    inbox.create_group()
    fill(redis, "alive", LOOKED_AT + 1)
    left = fill(redis, "dead", 1, idle_ms=2 * IDLE_MS)

    assert [inbox.take_over(IDLE_MS) for _ in range(2)] == [0, 1]
    assert owned(redis, "here") == left


def test_looks_begin_anew_behind_the_last_entry(redis: Redis) -> None:
    inbox = Inbox(redis, P0.outcomes, "", "here")
    inbox.create_group()
    first = fill(redis, "alive", LOOKED_AT + 1)[0]
    assert [inbox.take_over(IDLE_MS) for _ in range(2)] == [0, 0]
    redis.xclaim(P0.outcomes, GROUP, "dead", 0, [first], idle=2 * IDLE_MS, justid=True)

    assert inbox.take_over(IDLE_MS) == 1
    assert owned(redis, "here") == [first]


def test_who_takes_everything_gets_the_first_entries_each_time(redis: Redis) -> None:
    inbox = Inbox(redis, P0.outcomes, "", "here")
    inbox.create_group()
    ids: Any = fill(redis, "dead", BATCH_ENTRIES + 1)
    assert inbox.take_over(0) == BATCH_ENTRIES
    redis.xclaim(P0.outcomes, GROUP, "another", 0, ids[:1], justid=True)

    assert inbox.take_over(0) == BATCH_ENTRIES
    assert owned(redis, "here") == ids[:BATCH_ENTRIES]
