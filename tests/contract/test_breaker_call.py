"""What the function that changes a breaker promises, on a real server."""

from __future__ import annotations

from typing import Any

import pytest

from worker.store import clients, functions
from worker.store.keys import Partition

HOME = Partition(0)
SERIES, PAUSE = "default acme/shop", "breaker default acme/shop"
NEW = (b"", b"one", PAUSE, b"a pause", 100)  # the breaker as it was read and as it becomes, its pause, when to look


@pytest.fixture
def redis(redis_url: str) -> Any:
    with clients.connect(redis_url) as client:
        functions.load(client)
        client.zadd(HOME.breakers_due, {SERIES: 50})
        client.zadd(HOME.counted_failures(SERIES), {"a failure": 40})
        client.hset(HOME.probes, SERIES, "news")
        yield client


def change(redis: Any, *about: Any, forget: int = 0, events: tuple[Any, ...] = ()) -> bool:
    call = ("FCALL", functions.CHANGE_BREAKER, 2, HOME.scopes, HOME.events, SERIES)
    return bool(functions.call(redis, *call, *about, forget, 60, "", 1000, *events))


def stands(redis: Any) -> tuple[Any, ...]:
    """A breaker, its pause, when to look at it, what was counted, news of its probe, and how often pauses changed."""
    return (
        redis.hget(HOME.breakers, SERIES),
        redis.hget(HOME.scopes, PAUSE),
        redis.zscore(HOME.breakers_due, SERIES),
        redis.zcard(HOME.counted_failures(SERIES)),
        redis.hget(HOME.probes, SERIES),
        int(redis.hget(HOME.scopes, "commands") or 0),
    )


def test_a_breaker_and_its_pause_are_changed_together_with_one_event(redis: Any) -> None:
    assert change(redis, *NEW, events=("kind", "data"))

    assert stands(redis) == (b"one", b"a pause", 100, 1, b"news", 1)
    assert [fields for _, fields in redis.xrange(HOME.events)] == [{b"type": b"kind", b"data": b"data"}]


def test_nothing_is_changed_where_another_worker_was_first(redis: Any) -> None:
    assert change(redis, *NEW)
    before = stands(redis)

    assert not change(redis, *NEW, events=("kind", "data"))
    assert not change(redis, b"two", b"", PAUSE, b"", 200, forget=1)

    assert stands(redis) == before
    assert not redis.exists(HOME.events)


def test_a_pause_may_stay_as_it_is(redis: Any) -> None:
    assert change(redis, *NEW)
    assert change(redis, b"one", b"two", PAUSE, b"-", 200)

    assert stands(redis) == (b"two", b"a pause", 200, 1, b"news", 1)


def test_what_is_lifted_and_forgotten_leaves_nothing(redis: Any) -> None:
    assert change(redis, *NEW)
    assert change(redis, b"one", b"", PAUSE, b"", "was 100", forget=1)

    assert stands(redis) == (None, None, None, 0, None, 2)


def test_who_looks_for_the_last_time_leaves_a_look_that_came_meanwhile(redis: Any) -> None:
    assert change(redis, b"", b"", PAUSE, b"-", "was 49")
    assert redis.zscore(HOME.breakers_due, SERIES) == 50

    assert change(redis, b"", b"", PAUSE, b"-", "was 50")
    assert redis.zscore(HOME.breakers_due, SERIES) is None
