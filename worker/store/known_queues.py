"""Which queues of step specs there are: their names among the counters of goals and of partitions.

A queue is noted there with every goal that names it and has a plan, and with every step that is handed out, so that
nobody has to look through all keys of the server to find it.
"""

from __future__ import annotations

from collections.abc import Collection

from redis import Redis

from worker.store import keys
from worker.store.keys import Partition

QUEUE = "queue:"  # begins the field of a queue; its value is how often it was named
MOST = 50  # that are noted with one goal; others are once a step of theirs is handed out


def count(queues: Collection[str]) -> dict[str, int]:
    """Name the counters that note these queues, each to be raised by 1."""
    return {QUEUE + queue: 1 for queue in sorted(queues)[:MOST]}


def read(client: Redis, partitions: int) -> list[str]:
    """Name the queues, those that are named most often first."""
    pipeline = client.pipeline(transaction=False)
    pipeline.hgetall(keys.GOALS_STATS)
    for number in range(partitions):
        pipeline.hgetall(Partition(number).stats)
    times: dict[str, int] = {}
    for found in pipeline.execute():
        for field, value in found.items():
            name = field.decode()
            if name.startswith(QUEUE):
                queue = name.removeprefix(QUEUE)
                times[queue] = times.get(queue, 0) + int(value)
    return sorted(times, key=lambda queue: (-times[queue], queue))
