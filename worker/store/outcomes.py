"""Outcomes that arrive over HTTP: checks their leases, and adds them to the streams of their plans."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from redis import Redis

from schemas.stored.step import queue_of
from worker.store.keys import Partition, partition_of


class AttemptRef(NamedTuple):
    """An attempt as an outcome names it."""

    plan_id: str
    step_id: str
    attempt: int
    lease: str


def without_lease(client: Redis, partitions: int, attempts: Sequence[AttemptRef]) -> set[AttemptRef]:
    """Return the attempts that are not live, or that name a wrong lease."""
    pipeline = client.pipeline(transaction=False)
    for each in attempts:
        home = Partition(partition_of(each.plan_id, partitions))
        pipeline.hmget(home.lease_prefix(each.plan_id) + each.step_id, "attempt", "lease")
    found = pipeline.execute(raise_on_error=False)  # an error: somebody put something else in the lease's place
    return {
        each
        for each, live in zip(attempts, found, strict=True)
        if live != [str(each.attempt).encode(), each.lease.encode()]
    }


def queues_of(client: Redis, partitions: int, attempts: Collection[AttemptRef]) -> set[str]:
    """Return the queues of these attempts' steps; steps that do not exist are left out."""
    pipeline = client.pipeline(transaction=False)
    for each in attempts:
        pipeline.hget(Partition(partition_of(each.plan_id, partitions)).plan(each.plan_id).steps, each.step_id)
    return {queue_of(raw) for raw in pipeline.execute() if raw}


class EntryPlace(NamedTuple):
    """The place of an outcome: partition and entry id, because the streams of two partitions may use the same id."""

    partition: int
    entry: str


def publish(client: Redis, partitions: int, messages: Sequence[tuple[str, bytes]]) -> tuple[EntryPlace, ...]:
    """Add outcomes to the streams of their plans. Return their entries, in order.

    Raises the first error of the server. A caller may then send all of them again without harm.
    """
    pipeline = client.pipeline(transaction=False)
    homes = [partition_of(plan_id, partitions) for plan_id, _ in messages]
    for home, (_, data) in zip(homes, messages, strict=True):
        pipeline.xadd(Partition(home).outcomes, {"data": data})
    return tuple(EntryPlace(home, entry.decode()) for home, entry in zip(homes, pipeline.execute(), strict=True))


def taken(client: Redis, places: Collection[EntryPlace]) -> frozenset[EntryPlace]:
    """Return the entries that the planner has processed."""
    pipeline = client.pipeline(transaction=False)
    for place in places:
        pipeline.xrange(Partition(place.partition).outcomes, place.entry, place.entry)
    found: list[Any] = pipeline.execute()
    return frozenset(place for place, there in zip(places, found, strict=True) if not there)
