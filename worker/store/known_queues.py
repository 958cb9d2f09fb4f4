"""Which queues of step specs there are: their names among the counters of goals and of partitions.

A queue is noted there with every goal that names it and has a plan, and with every step that is handed out, so that
nobody has to look through all keys of the server to find it. Older workers note none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from redis import Redis

from worker.store import fleet, keys
from worker.store.keys import Partition

QUEUE = "queue:"  # begins the field of a queue; its value is how often it was named
MOST = 50  # that are noted with one goal; others are once a step of theirs is handed out
WALK_S = 60.0  # between two walks over all keys, for queues of older workers
NEVER = float("inf")


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


class KnownQueues:
    """The names of all queues, also of those that older workers have made; for several threads.

    These are found by a walk over all keys with the first look, and again where `walk_s` have passed.
    """

    def __init__(self, walk_s: float = WALK_S) -> None:
        self._walk_s = walk_s
        self._lock = threading.Lock()
        self._walked_at = -NEVER
        self._found: frozenset[str] = frozenset()

    def read(self, client: Redis, partitions: int) -> list[str]:
        """Name the queues, those that are named most often first, and last those that a walk found alone."""
        with self._lock:
            if time.monotonic() - self._walked_at >= self._walk_s:
                self._found = fleet.find_queues(client)
                self._walked_at = time.monotonic()
            found = self._found
        noted = read(client, partitions)
        return [*noted, *sorted(found.difference(noted))]
