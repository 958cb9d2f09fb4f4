"""The repositories of which something is remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from redis import Redis

from schemas.stats import StatsBy
from worker.store import flaky_memory, kept_memory, sums


class RepositoryMemory(NamedTuple):
    """How much is remembered of a repository: flaky tests, how often they were seen, changes that failed, drafts."""

    tenant: str
    repo: str
    tests: int
    sightings: int
    failed_changes: int
    drafts: int


def list_repositories(client: Redis, partitions: int, tenant: str | None = None) -> Iterator[RepositoryMemory]:
    """Yield the repositories, or those of one tenant, by their names.

    Flaky tests are found by a walk over all keys. The keys of changes and drafts do not name the repository: they are
    counted for those of which a plan has ended within the 90 days that its sums are kept.
    """
    tests = {each[:2]: each[2:] for each in flaky_memory.list_repositories(client, partitions, tenant)}
    ended = sums.read(client, partitions, sums.Wanted(since=0, by=StatsBy.REPOSITORY, tenant=tenant)).items
    names = {*tests, *((row.tenant, row.repo) for row in ended if row.tenant and row.repo)}
    kept = kept_memory.count(client, partitions, sorted(names))
    for name in sorted({*tests, *kept}):
        yield RepositoryMemory(*name, *tests.get(name, (0, 0)), *kept.get(name, (0, 0)))
