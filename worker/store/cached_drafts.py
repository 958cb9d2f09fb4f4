"""The drafts in the plan cache: which there are, and how they are forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from tasks.plan.cached_draft import CACHE
from tasks.plan.changeset import kept_name
from tasks.rules.plan_cache import CachedDraft, read_entry
from worker.store.keys import NO_TENANT, Partition, bucket


class KeptDraft(NamedTuple):
    """A draft with the key that it is under, and whose it is."""

    key: str
    tenant: str
    repo: str
    draft: CachedDraft


def read(client: Redis, partitions: int, tenant: str | None = None, repo: str | None = None) -> list[KeptDraft]:
    """Read the drafts of a tenant and of a repository, of all where none is named; the newest first."""
    keys: Iterable[str] = _keys(client, partitions)
    if repo is not None:
        name, home = kept_name(CACHE, tenant or NO_TENANT, repo), Partition(int(bucket(repo), 16) % partitions)
        keys = [home.kept(name)] if name and tenant else [key for key in keys if key.startswith(home.kept(CACHE))]
    found = [kept for key in keys for kept in _drafts(client, key)]
    mine = [each for each in found if tenant in (None, each.tenant) and repo in (None, each.repo)]
    return sorted(mine, key=lambda each: (-each.draft.at, each.draft.field))


def forget(client: Redis, drafts: Iterable[KeptDraft]) -> int:
    """Forget drafts; returns how many were there."""
    count = 0
    for each in drafts:
        pipeline = client.pipeline(transaction=True)
        pipeline.hdel(each.key, each.draft.field)
        pipeline.lrem(f"{each.key}:order", 1, each.draft.field)
        count += pipeline.execute()[0]
    return count


def _keys(client: Redis, partitions: int) -> Iterator[str]:
    for number in range(partitions):
        pattern = Partition(number).kept(f"{CACHE}:*").replace("{", r"\{").replace("}", r"\}")
        for key in client.scan_iter(match=pattern, count=1000):
            if not key.endswith(b":order"):
                yield key.decode()


def _drafts(client: Redis, key: str) -> Iterator[KeptDraft]:
    fields: Any = client.hgetall(key)
    for name, raw in fields.items():
        if draft := read_entry(name.decode(errors="replace"), raw):
            record = codec.loads(raw)
            yield KeptDraft(key, str(record.get("tenant", NO_TENANT)), str(record.get("repo", "")), draft)
