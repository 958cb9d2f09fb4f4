"""Outcomes that come by another door than Redis: who may send them, and putting them on their streams."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from redis import Redis

from schemas.step import unpack_step
from worker.store.keys import Partition, partition_of


class AttemptRef(NamedTuple):
    """An attempt as an outcome names it."""

    plan_id: str
    step_id: str
    attempt: int
    lease: str


def without_lease(client: Redis, partitions: int, attempts: Sequence[AttemptRef]) -> set[AttemptRef]:
    """Tell which of these are not live attempts with their lease."""
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
    """Name the queues of these attempts' steps, as far as they are there."""
    pipeline = client.pipeline(transaction=False)
    for each in attempts:
        pipeline.hget(Partition(partition_of(each.plan_id, partitions)).plan(each.plan_id).steps, each.step_id)
    return {unpack_step(raw)["queue"] for raw in pipeline.execute() if raw}


def publish(client: Redis, partitions: int, messages: Sequence[tuple[str, bytes]]) -> tuple[str, ...]:
    """Put outcomes on the streams of their plans; returns the entries' ids, in order.

    Raises the first error of the server. Who sends all of them again then does no harm.
    """
    pipeline = client.pipeline(transaction=False)
    for plan_id, data in messages:
        pipeline.xadd(Partition(partition_of(plan_id, partitions)).outcomes, {"data": data})
    return tuple(entry.decode() for entry in pipeline.execute())


def taken(client: Redis, partitions: int, entries: Mapping[str, str]) -> frozenset[str]:
    """Tell which of these entries, each with its plan, the planner is done with."""
    pipeline = client.pipeline(transaction=False)
    for entry, plan_id in entries.items():
        pipeline.xrange(Partition(partition_of(plan_id, partitions)).outcomes, entry, entry)
    found: list[Any] = pipeline.execute()
    return frozenset(entry for entry, there in zip(entries, found, strict=True) if not there)
