"""Reads the open breakers of repositories, with the time of the next probe."""

from __future__ import annotations

from typing import Any

from redis import Redis
from redis.exceptions import NoPermissionError

from schemas.plan import BreakerView, PlanSummary
from schemas.times import rfc3339
from tasks.base.series import series_name
from tasks.features.breakers.breaker import ACTOR, Breaker, next_probe
from worker.store.keys import Partition, partition_of


def read_all(client: Redis, partitions: int) -> list[BreakerView]:
    """Return the open breakers of all partitions, by tenant and repository; empty if this user may not read them."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    for number in range(partitions):
        pipeline.hvals(Partition(number).breakers)
    try:
        clock, *found = pipeline.execute()
    except NoPermissionError:
        return []
    known = (Breaker.decode(raw) for records in found for raw in records)
    views = [_view(each, clock) for each in known if not each.closing]
    return sorted(views, key=lambda view: (view.tenant, view.repo))


def read_of(client: Redis, partitions: int, plan: PlanSummary) -> BreakerView | None:
    """Return the breaker of a plan's repository, if it is the reason of the plan's pause."""
    paused_by = plan.paused_by or ""
    if not plan.repo or f" by {ACTOR}: " not in paused_by:
        return None
    partition = Partition(partition_of(plan.plan_id, partitions))
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hget(partition.breakers, series_name(plan.tenant, plan.repo))
    try:
        clock, raw = pipeline.execute()
    except NoPermissionError:
        return None
    known = Breaker.decode(raw) if raw else None
    return _view(known, clock) if known and known.why in paused_by else None


def _view(known: Breaker, clock: Any) -> BreakerView:
    seconds, microseconds = clock
    at = next_probe(known, seconds * 1000 + microseconds // 1000)
    return BreakerView(
        tenant=known.tenant,
        repo=known.repo,
        reason=known.why,
        since=rfc3339(known.at),
        next_probe_at=None if at is None else rfc3339(at),
        probe=known.plan or None,
    )
