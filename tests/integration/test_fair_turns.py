"""Goals of tenants take turns: a flood of one does not hold up the others, and nothing is lost or taken twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis import Redis

from schemas import codec
from worker.store import clients, functions
from worker.store.keys import GOALS, GOALS_DEAD, GOALS_TURNS, GROUP
from worker.streams.fair_inbox import FairInbox
from worker.streams.inbox import Inbox

TENANTS = st.lists(st.sampled_from(["acme", "beta", "crew"]), min_size=1, max_size=60)


@pytest.fixture
def redis(redis: Redis, redis_url: str) -> Iterator[Redis]:
    """A client as workers have it, of an empty server with the planner's functions."""
    functions.load(redis)
    with clients.connect(redis_url) as client:
        yield client


def inbox(redis: Redis, name: str = "me", **weights: float) -> FairInbox:
    return FairInbox(redis, GOALS, GOALS_DEAD, name, weights=weights)


def publish(redis: Redis, *tenants: str) -> None:
    for tenant in tenants:
        redis.xadd(GOALS, {"data": codec.dumps({"goal": "Mend it", "tenant": tenant})})


def take(box: FairInbox, most: int = 1000, at_once: int = 1) -> list[str]:
    """Take entries, a few at once, and drop them as a worker does; returns their tenants."""
    found: list[str] = []
    while len(found) < most and (entries := box.take(min(at_once, most - len(found)), 10**6)):
        found += [codec.loads(entry.data or b"")["tenant"] for entry in entries]
        for command in box.drop(entries):
            functions.call(box.client, *command)
    return found


def test_the_goal_of_another_tenant_comes_next_behind_a_flood(redis: Redis) -> None:
    publish(redis, *["acme"] * 500, "beta")

    assert take(inbox(redis), 3).index("beta") <= 1


def test_turns_are_shared_by_weight(redis: Redis) -> None:
    publish(redis, *["acme"] * 50, *["beta"] * 50)

    assert Counter(take(inbox(redis, acme=3.0), 40)) == {"acme": 30, "beta": 10}


def test_a_tenant_whose_goals_come_one_by_one_does_not_go_first_for_ever(redis: Redis) -> None:
    publish(redis, *["beta"] * 20, "acme")
    box, found = inbox(redis), list[str]()
    for _ in range(20):
        found += take(box, 1)
        publish(redis, *(["acme"] if found[-1] == "acme" else []))

    assert 8 <= found.count("beta") <= 12


def test_what_cannot_be_read_waits_as_well(redis: Redis) -> None:
    publish(redis, "acme", "acme")
    redis.xadd(GOALS, {"data": b"{"})
    redis.xadd(GOALS, {"data": b'["tenant"]'})
    redis.xadd(GOALS, {"other": b"1"})
    box = inbox(redis)

    found = [box.take() for _ in range(6)]

    assert len({entry.entry_id for entries in found for entry in entries}) == 5
    assert found[-1] == []


def test_a_dead_worker_leaves_its_own_entry_and_not_what_waits(redis: Redis) -> None:
    publish(redis, *["acme"] * 10)
    assert inbox(redis, "dead").take()
    box = inbox(redis)

    assert box.take_over(0) == 1
    assert len(box.read(10, after="0")) == 1
    assert len(take(box)) == 9


def test_entries_that_wait_and_have_lost_their_places_are_taken_over(redis: Redis) -> None:
    publish(redis, *["acme"] * 10)
    assert inbox(redis).take()
    redis.delete(GOALS_TURNS)

    assert inbox(redis, "other").take_over(0) == 10


def test_a_version_without_turns_takes_over_what_waits(redis: Redis) -> None:
    publish(redis, *["acme"] * 10)
    box = inbox(redis)
    first = box.take()
    assert first

    assert Inbox(redis, GOALS, GOALS_DEAD, "older").take_over(0) == 10
    assert box.take() == []


def test_what_is_taken_together_is_taken_in_turn(redis: Redis) -> None:
    publish(redis, *["acme"] * 50, *["beta"] * 50)

    assert [Counter(take(inbox(redis), 16, at_once=16)) for _ in range(2)] == [{"acme": 8, "beta": 8}] * 2


def test_a_few_are_taken_together_as_they_came_and_nobody_waits(redis: Redis) -> None:
    publish(redis, "acme", "acme", "beta")

    assert take(inbox(redis), at_once=16) == ["acme", "acme", "beta"]
    assert not redis.exists(GOALS_TURNS)


def test_no_more_is_taken_together_once_there_are_so_many_bytes(redis: Redis) -> None:
    for _ in range(4):
        redis.xadd(GOALS, {"data": codec.dumps({"goal": "x" * 1000})})
    box = inbox(redis)

    assert [len(box.take(16, 2000)) for _ in range(3)] == [2, 2, 0]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(st.tuples(TENANTS, st.integers(0, 30)), min_size=1, max_size=6), at_once=st.integers(1, 16))
@example(rounds=[(["acme"] * 2 + ["crew"] * 4, 5), (["acme"] * 2, 2)], at_once=1)
def test_every_entry_is_taken_once_and_no_tenant_waits_longer_than_its_share(
    redis: Redis, rounds: Sequence[tuple[list[str], int]], at_once: int
) -> None:
    redis.flushall()
    functions.load(redis)
    boxes, waiting, taken = [inbox(redis, "a"), inbox(redis, "b")], Counter[str](), Counter[str]()
    for number, (tenants, most) in enumerate(rounds):
        publish(redis, *tenants)
        waiting.update(tenants)
        found = take(boxes[number % 2], most, at_once)
        taken.update(found)
        share = Counter(found)
        always = [tenant for tenant in waiting if waiting[tenant] - taken[tenant] > 0]  # had one at the end as well
        for tenant in always:
            # One turn for each of the two, as start-time fair queueing has it: one may have been ahead by its last.
            assert all(share[tenant] >= share[other] - 2 for other in share)
    taken.update(take(boxes[0]))

    assert taken == waiting
    pending: Any = redis.xpending(GOALS, GROUP)
    assert (redis.xlen(GOALS), pending["pending"]) == (0, 0)
    assert not list(redis.keys("*turns*"))
