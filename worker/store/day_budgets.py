"""Day budgets of tenants and repositories as people look at them: what today allows, and what was handed out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis import Redis

from schemas.fleet import DayBudgetView
from schemas.times import DAY_MS, rfc3339
from worker.store import keys
from worker.store.keys import Partition


def used_scopes(client: Redis, partitions: int) -> list[str]:
    """Name the scopes of which plans were given tokens, today or before."""
    pipeline = client.pipeline(transaction=False)
    for number in range(partitions):
        pipeline.hkeys(Partition(number).grants)
    return sorted({scope.decode() for found in pipeline.execute() for scope in found})


def read(client: Redis, partitions: int, limits: Mapping[str, int]) -> list[DayBudgetView]:
    """Tell of the day budgets of these scopes, each with what its setting allows."""
    seconds: Any = client.time()
    day = seconds[0] // (DAY_MS // 1000)
    pipeline = client.pipeline(transaction=False)
    for scope in limits:
        pipeline.hmget(keys.day_grants(day, scope), "granted", "extra")
        for number in range(partitions):
            pipeline.hget(Partition(number).grants, scope)
    replies, size = pipeline.execute(), 1 + partitions
    views = []
    for place, (scope, limit) in enumerate(limits.items()):
        (granted, extra), *grants = replies[place * size : (place + 1) * size]
        of, _, name = scope.partition(":")
        unused = sum(_left(raw, day) for raw in grants)  # below 0 where more was used than was granted
        view = DayBudgetView(
            scope=scope,
            tenant=name if of == "tenant" else None,
            repo=name if of == "repository" else None,
            limit=limit + int(extra or 0),
            spent=max(0, int(granted or 0) - unused),
            resets_at=rfc3339((day + 1) * DAY_MS),
        )
        views.append(view)
    return views


def _left(raw: bytes | None, day: int) -> int:
    """Read what is left of a partition's grant; nothing of another day's."""
    of, left, *_ = raw.split() if raw else (b"-1", b"0")
    return int(left) if int(of) == day else 0
