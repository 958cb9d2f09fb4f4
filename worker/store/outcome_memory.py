"""Recorded attempts in Redis: a list by tenant, repository and fingerprint."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from redis import Redis

from tasks.memory.outcomes import Attempted, list_of, read_list, read_records
from worker.store.keys import Partition, bucket, partition_of


class Fingerprint(NamedTuple):
    """A list of recorded attempts: its tenant, repository and fingerprint, and the number of attempts."""

    tenant: str
    repo: str
    fingerprint: str
    attempts: int


def list_fingerprints(client: Redis, partitions: int, tenant: str | None = None) -> Iterator[Fingerprint]:
    """Yield the lists of recorded attempts, of all tenants or of one, sorted by name."""
    homes = [Partition(number) for number in range(partitions)]
    names = _ask(client, (("ZRANGE", home.remembering, 0, -1) for home in homes))
    tenants = [(home, name.decode()) for home, some in zip(homes, names, strict=True) for name in some]
    lists = _ask(client, (("ZRANGE", home.memories(owner), 0, -1) for home, owner in tenants))
    keys = [(home, name.decode()) for (home, _), some in zip(tenants, lists, strict=True) for name in some]
    lengths = _ask(client, (("LLEN", home.memory(name)) for home, name in keys))
    found = [Fingerprint(*read_list(name), length) for (_, name), length in zip(keys, lengths, strict=True) if length]
    yield from sorted(each for each in found if tenant in (None, each.tenant))


def _ask(client: Redis, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    return pipeline.execute()


def read(client: Redis, partitions: int, tenant: str, repo: str, fingerprint: str) -> list[Attempted]:
    """Return the recorded attempts of a fingerprint, newest first."""
    raw: Any = client.lrange(_home(partitions, repo).memory(list_of(tenant, repo, fingerprint)), 0, -1)
    return read_records(raw, time.time_ns() // 1_000_000)


def forget(
    client: Redis, partitions: int, tenant: str, *, repo: str | None = None, fingerprint: str | None = None
) -> int:
    """Delete the recorded attempts of a repository, or of one fingerprint. Return their number."""
    gone = 0
    for each in list_fingerprints(client, partitions, tenant):
        if repo in (None, each.repo) and fingerprint in (None, each.fingerprint):
            home, name = _home(partitions, each.repo), list_of(tenant, each.repo, each.fingerprint)
            pipeline = client.pipeline(transaction=True)
            pipeline.llen(home.memory(name))
            pipeline.delete(home.memory(name))
            pipeline.zrem(home.memories(name.partition(":")[0]), name)
            gone += int(pipeline.execute()[0])
    return gone


def _home(partitions: int, repo: str) -> Partition:
    return Partition(partition_of(f"plan_{bucket(repo)}-", partitions))
