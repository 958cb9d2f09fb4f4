"""Summaries of chunks of commits, in Redis: by tenant, for 30 days, the newest 500."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from redis import Redis

from schemas import codec
from worker.store.keys import Partition

KEPT_S = 30 * 86_400  # since the tenant's last summary was made
MOST_KEPT = 500  # of a tenant in a partition


def read(client: Redis, partition: Partition, tenant: str, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the text and the model of each summary that exists, by name."""
    if not names:
        return {}
    raw: Any = client.hmget(partition.chunks(tenant), list(names))
    found = ((name, codec.loads(each)) for name, each in zip(names, raw, strict=True) if each)
    return {name: (kept["summary"], kept["model"]) for name, kept in found}


def keep(client: Redis, partition: Partition, tenant: str, name: str, summary: str, model: str) -> None:
    """Keep a summary, and drop the oldest of a tenant that has more than `MOST_KEPT`."""
    key = partition.chunks(tenant)
    order = f"{key}:order"
    pipeline = client.pipeline(transaction=True)
    pipeline.hset(key, name, codec.dumps({"summary": summary, "model": model}))
    pipeline.zadd(order, {name: time.time()})
    pipeline.zrange(order, 0, -MOST_KEPT - 1)
    pipeline.zremrangebyrank(order, 0, -MOST_KEPT - 1)
    pipeline.expire(key, KEPT_S)
    pipeline.expire(order, KEPT_S)
    if old := pipeline.execute()[2]:
        client.hdel(key, *old)
