"""The planner's memory of flaky tests in Redis: counters by repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from redis import Redis

from tasks.memory.flaky_tests import COUNTERS, Sighting, counters_of, repository_of, sighting_of
from worker.store.clients import now_ms
from worker.store.keys import Partition, bucket, partition_of

MOST_COUNTERS = 1000  # of a repository, as commit.lua has it
KEPT_S = 180 * 86400  # after the last sighting, likewise


class Remembered(NamedTuple):
    """A repository in the memory: the number of its flaky tests, and of all sightings."""

    tenant: str
    repo: str
    tests: int
    sightings: int


def list_repositories(client: Redis, partitions: int, tenant: str | None = None) -> Iterator[Remembered]:
    """Yield the repositories with flaky tests, of all tenants or of one, sorted by name."""
    found: list[Remembered] = []
    for owner, repo in {*_repositories(client, partitions)}:
        if tenant in (None, owner) and (seen := read(client, partitions, owner, repo)):
            found.append(Remembered(owner, repo, len({each.test for each in seen}), sum(each.times for each in seen)))
    yield from sorted(found)


def _repositories(client: Redis, partitions: int) -> Iterator[tuple[str, str]]:
    pipeline = client.pipeline(transaction=False)
    for number in range(partitions):
        pipeline.zrange(Partition(number).recalled, 0, -1)
    for names in pipeline.execute():
        for counters in (name.decode(errors="replace") for name in names):
            if counters.startswith(f"{COUNTERS}:"):
                yield repository_of(counters)


def read(client: Redis, partitions: int, tenant: str, repo: str) -> list[Sighting]:
    """Return the sightings in a tenant's repository, by day and test."""
    counters: Any = client.hgetall(_key(partitions, tenant, repo))
    known = ((field.decode(errors="replace"), int(count)) for field, count in counters.items() if count.isdigit())
    found = (sighting_of(field, count) for field, count in known)
    return sorted(filter(None, found))


def forget(client: Redis, partitions: int, tenant: str, repo: str, test: str | None = None) -> int:
    """Delete a repository's flaky tests from the memory, or only `test`. Return the number of deleted tests."""
    key, known = _key(partitions, tenant, repo), read(client, partitions, tenant, repo)
    gone = [each for each in known if test in (None, each.test)]
    if test is None:
        client.delete(key)
    elif gone:
        client.hdel(key, *[f"{each.day} {each.test}" for each in gone])
    return len({each.test for each in gone})


def add(client: Redis, partitions: int, tenant: str, repo: str, sightings: Iterable[Sighting]) -> int:
    """Merge sightings with the stored ones; of two counts, the larger one is kept.

    Returns the number of sightings that were dropped because the memory is full.
    """
    key, left_out = _key(partitions, tenant, repo), 0
    known = {(each.day, each.test): each.times for each in read(client, partitions, tenant, repo)}
    wanted: dict[str, int] = {}
    for each in sightings:
        name = each.day, each.test
        if name not in known and len(known) >= MOST_COUNTERS:
            left_out += 1
            continue
        known[name] = wanted[f"{each.day} {each.test}"] = max(each.times, known.get(name, 0))
    if wanted:
        client.hset(key, items=[part for pair in wanted.items() for part in pair])
        client.expire(key, KEPT_S)
        client.zadd(_home(partitions, repo).recalled, {counters_of(tenant, repo): now_ms(client)})
    return left_out


def _key(partitions: int, tenant: str, repo: str) -> str:
    return _home(partitions, repo).recall(counters_of(tenant, repo))


def _home(partitions: int, repo: str) -> Partition:
    return Partition(partition_of(f"plan_{bucket(repo)}-", partitions))
