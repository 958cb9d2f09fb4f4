"""Cuts the events of a partition at their old end: by age, and by the bytes that they take.

A commit adds events and bounds their number (EVENTS_CAP); what costs more to find out is found out in sweeps.
"""

from __future__ import annotations

import time
from typing import Any

from redis import Redis
from redis.exceptions import ResponseError

from worker.store.keys import Partition
from worker.store.memory import ServerMemory

CUT_S = 10.0  # between two looks
TARGET = 7 / 8  # of the bytes: what a stream that takes more is cut to
SAMPLES = 20  # of a stream's nodes, of which the server estimates the bytes of all


class EventKeeper:
    """Keeps the events of a partition for `kept_s`, about, and fewer where they take more than their share of memory.

    Whole pages of the stream are cut, so that about a hundred events stay however old they are.
    """

    def __init__(self, client: Redis, partition: Partition, memory: ServerMemory, kept_s: int) -> None:
        self._client = client
        self._stream = partition.events
        self._memory = memory
        self._kept_s = kept_s
        self._cut_at = float("-inf")

    def cut(self) -> None:
        """Cut what is too old or too much, unless that was done a moment ago."""
        if time.monotonic() - self._cut_at < CUT_S:
            return
        self._cut_at = time.monotonic()
        now: Any = self._client.time()
        pipeline = self._client.pipeline(transaction=False)
        pipeline.xtrim(self._stream, minid=f"{(now[0] - self._kept_s) * 1000}-0", approximate=True, limit=0)
        pipeline.memory_usage(self._stream, samples=SAMPLES)
        pipeline.xlen(self._stream)
        _, size, length = pipeline.execute(raise_on_error=False)
        most = self._memory.event_bytes()
        if not isinstance(size, ResponseError) and size and size > most:
            self._client.xtrim(self._stream, maxlen=int(length * TARGET * most / size), approximate=True, limit=0)
