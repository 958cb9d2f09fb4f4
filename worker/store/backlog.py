"""How far behind the workers are: the outcomes of each partition that wait to be applied."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import NoPermissionError

from worker.store.keys import Partition


class Backlog(NamedTuple):
    """What waits in a partition: how many outcomes, and the age of the oldest."""

    waiting: int
    oldest_ms: int | None


def read(client: Redis, partitions: int) -> list[Backlog | None]:
    """Tell what waits in each partition; None where this user may not know."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    for number in range(partitions):
        pipeline.xlen(Partition(number).outcomes)
        pipeline.xrange(Partition(number).outcomes, count=1)
    (seconds, microseconds), *found = pipeline.execute(raise_on_error=False)
    now = seconds * 1000 + microseconds // 1000
    return [_backlog(length, first, now) for length, first in zip(found[::2], found[1::2], strict=True)]


def _backlog(length: Any, first: Any, now: int) -> Backlog | None:
    for error in (length, first):
        if isinstance(error, NoPermissionError):
            return None
        if isinstance(error, Exception):
            raise error
    return Backlog(length, max(0, now - int(first[0][0].partition(b"-")[0])) if first else None)
