"""Which changes failed in a repository, as later plans are told of them: what there is, and how it is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from redis import Redis

from tasks.plan.changeset import kept_name
from tasks.policy.failed_diffs import FAILED_DIFFS
from worker.store.keys import Partition, bucket, partition_of


class FailedChange(NamedTuple):
    """A change that failed under a verification, by its name, on a base commit; last `at`, ms."""

    at: int
    base_sha: str
    verification: str
    diff_hash: str


def read(client: Redis, partitions: int, tenant: str, repo: str) -> list[FailedChange]:
    """Read the changes that failed in a tenant's repository, oldest first; passes over what cannot be read."""
    key, _ = _keys(partitions, tenant, repo)
    fields: Any = client.hgetall(key)
    return sorted(_readable(fields.items()))


def count(client: Redis, partitions: int, repositories: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Count the changes of repositories, each with its tenant; those without any are left out."""
    wanted = list(repositories)
    pipeline = client.pipeline(transaction=False)
    for tenant, repo in wanted:
        pipeline.hlen(_keys(partitions, tenant, repo)[0])
    return {each: number for each, number in zip(wanted, pipeline.execute(), strict=True) if number}


def forget(client: Redis, partitions: int, tenant: str, repo: str) -> int:
    """Forget the changes of a tenant's repository; returns how many that were."""
    key, order = _keys(partitions, tenant, repo)
    pipeline = client.pipeline(transaction=True)
    pipeline.hlen(key)
    pipeline.delete(key, order)
    return int(pipeline.execute()[0])


def _readable(fields: Iterable[tuple[bytes, bytes]]) -> Iterator[FailedChange]:
    for name, at in fields:
        base, _, rest = name.decode(errors="replace").partition(" ")
        verification, _, digest = rest.partition(" ")
        if digest and at.isdigit():
            yield FailedChange(int(at), base, verification, digest)


def _keys(partitions: int, tenant: str, repo: str) -> tuple[str, str]:
    """Name the hash of a repository's changes, and the list of their order."""
    home = Partition(partition_of(f"plan_{bucket(repo)}-", partitions))
    key = home.kept(kept_name(FAILED_DIFFS, tenant, repo) or "")
    return key, f"{key}:order"
