"""The shared memory of a repository's plans: failed changes and drafts; lists and deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from redis import Redis

from schemas.stats import StatsBy
from tasks.features.failed_changes import FAILED_DIFFS
from tasks.plan.cached_draft import CACHE, CachedDraft, read_draft
from tasks.plan.changeset import kept_name
from worker.store import flaky_memory, outcome_memory, sums
from worker.store.keys import Partition, bucket, partition_of

CHANGES, DRAFTS = FAILED_DIFFS, CACHE


class FailedChange(NamedTuple):
    """A change that failed a verification: the time of the last failure in ms, its base commit, and its diff's hash."""

    at: int
    base_sha: str
    verification: str
    diff_hash: str


class RepositoryMemory(NamedTuple):
    """The size of a repository's memory: flaky tests and their sightings, failed changes, drafts.

    Also the number of recorded attempts, and their fingerprints.
    """

    tenant: str
    repo: str
    tests: int
    sightings: int
    failed_changes: int
    drafts: int
    attempts: int
    fingerprints: tuple[str, ...]


def read_changes(client: Redis, partitions: int, tenant: str, repo: str) -> list[FailedChange]:
    """Return the failed changes in a tenant's repository, oldest first; unreadable ones are skipped."""
    fields: Any = client.hgetall(_key(CHANGES, partitions, tenant, repo))
    return sorted(_readable(fields.items()))


def read_drafts(client: Redis, partitions: int, tenant: str, repo: str) -> list[CachedDraft]:
    """Return the drafts of a tenant's repository, oldest first; unreadable ones are skipped."""
    fields: Any = client.hgetall(_key(DRAFTS, partitions, tenant, repo))
    return sorted(filter(None, map(read_draft, fields.values())), key=lambda draft: (draft.at, draft.plan_id))


def count(client: Redis, partitions: int, repositories: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of changes and drafts of repositories, each with its tenant; empty ones are left out."""
    wanted = list(repositories)
    pipeline = client.pipeline(transaction=False)
    for tenant, repo in wanted:
        pipeline.hlen(_key(CHANGES, partitions, tenant, repo))
        pipeline.hlen(_key(DRAFTS, partitions, tenant, repo))
    found = pipeline.execute()
    numbers = {each: found[2 * place : 2 * place + 2] for place, each in enumerate(wanted)}
    return {each: pair for each, pair in numbers.items() if any(pair)}


def list_repositories(client: Redis, partitions: int, tenant: str | None = None) -> Iterator[RepositoryMemory]:
    """Yield the repositories with remembered data, of all tenants or of one, sorted by name.

    The keys of changes and drafts do not contain the repository. So changes and drafts are counted only for
    repositories with a plan that ended in the 90 days of stored sums.
    """
    tests = {each[:2]: each[2:] for each in flaky_memory.list_repositories(client, partitions, tenant)}
    ended = sums.read(client, partitions, sums.Wanted(since=0, by=StatsBy.REPOSITORY, tenant=tenant)).items
    recorded: dict[tuple[str, str], list[outcome_memory.Fingerprint]] = {}
    for each in outcome_memory.list_fingerprints(client, partitions, tenant):
        recorded.setdefault((each.tenant, each.repo), []).append(each)
    names = {*tests, *((row.tenant, row.repo) for row in ended if row.tenant and row.repo)}
    kept = count(client, partitions, sorted(names))
    for name in sorted({*tests, *kept, *recorded}):
        lists = recorded.get(name, [])
        attempts, fingerprints = sum(each.attempts for each in lists), tuple(each.fingerprint for each in lists)
        changes, drafts = kept.get(name, (0, 0))
        yield RepositoryMemory(*name, *tests.get(name, (0, 0)), changes, drafts, attempts, fingerprints)


def forget(client: Redis, partitions: int, tenant: str, repo: str, what: str) -> int:
    """Delete CHANGES or DRAFTS of a tenant's repository. Returns their number."""
    key = _key(what, partitions, tenant, repo)
    pipeline = client.pipeline(transaction=True)
    pipeline.hlen(key)
    pipeline.delete(key, f"{key}:order")
    return int(pipeline.execute()[0])


def _readable(fields: Iterable[tuple[bytes, bytes]]) -> Iterator[FailedChange]:
    for name, at in fields:
        base, _, rest = name.decode(errors="replace").partition(" ")
        verification, _, digest = rest.partition(" ")
        if digest and at.isdigit():
            yield FailedChange(int(at), base, verification, digest)


def _key(what: str, partitions: int, tenant: str, repo: str) -> str:
    """Return the hash for a repository's memory; with ":order" appended it is the list of the order."""
    home = Partition(partition_of(f"plan_{bucket(repo)}-", partitions))
    return home.kept(kept_name(what, tenant, repo) or "")
