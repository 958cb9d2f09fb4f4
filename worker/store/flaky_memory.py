"""What the planner remembers of flaky tests, in Redis: counters by repository, and an index of repositories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from redis import Redis

from tasks.memory.flaky_tests import INDEX, Sighting, counters_of, place_of, repository_at, sighting_of
from worker.store.keys import Partition, bucket, partition_of

MOST_COUNTERS = 1000  # of a repository, as commit.lua has it
KEPT_S = 180 * 86400  # without another one, likewise


class Remembered(NamedTuple):
    """A repository of which something is remembered."""

    tenant: str
    repo: str
    sightings: int


def list_repositories(client: Redis, partitions: int, tenant: str | None = None) -> Iterator[Remembered]:
    """Yield the repositories, those of one tenant where it is named, by their names."""
    found: list[Remembered] = []
    for number in range(partitions):
        places: Any = client.hkeys(Partition(number).recall(INDEX))
        for place in places:
            owner, repo = repository_at(place.decode(errors="replace"))
            if tenant in (None, owner) and (count := len(read(client, partitions, owner, repo))):
                found.append(Remembered(owner, repo, count))
    yield from sorted(found)


def read(client: Redis, partitions: int, tenant: str, repo: str) -> list[Sighting]:
    """Read what was seen in a tenant's repository, by day and test."""
    counters: Any = client.hgetall(_key(partitions, tenant, repo))
    known = ((field.decode(errors="replace"), int(count)) for field, count in counters.items() if count.isdigit())
    found = (sighting_of(field, count) for field, count in known)
    return sorted(filter(None, found))


def forget(client: Redis, partitions: int, tenant: str, repo: str, test: str | None = None) -> int:
    """Forget a tenant's repository, or one test of it; returns how many counters went."""
    key = _key(partitions, tenant, repo)
    if test is None:
        count: Any = client.hlen(key)
        client.delete(key)
        client.hdel(_partition(partitions, repo).recall(INDEX), place_of(tenant, repo))
        return int(count)
    named = [f"{each.day} {each.test}" for each in read(client, partitions, tenant, repo) if each.test == test]
    gone: Any = client.hdel(key, *named) if named else 0
    return int(gone)


def add(client: Redis, partitions: int, tenant: str, repo: str, sightings: Iterable[Sighting]) -> int:
    """Put sightings beside those that are there, the larger count of each; returns how many found no room."""
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
        index = _partition(partitions, repo).recall(INDEX)
        client.hincrby(index, place_of(tenant, repo), 1)
        client.expire(index, KEPT_S)
    return left_out


def _partition(partitions: int, repo: str) -> Partition:
    return Partition(partition_of(f"plan_{bucket(repo)}-", partitions))


def _key(partitions: int, tenant: str, repo: str) -> str:
    return _partition(partitions, repo).recall(counters_of(tenant, repo))
