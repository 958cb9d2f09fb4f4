"""Applies the outcomes of a partition in its poller's own thread, while few come and the pool is idle.

The way over the broker and the pool takes longer than the decision. What is more than that is the pool's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from redis import Redis
from redis.exceptions import RedisError

from tasks.routes import OUTCOMES
from worker.process.partition_engines import consumer_of, engine_of
from worker.store.keys import Partition
from worker.streams.inbox import Inbox, StreamEntry
from worker.telemetry.errors import reported_as

MOST_AT_ONCE = 64  # outcomes of a read; where more wait the pool is asked
BUSY_S = 0.03  # for which every read may find more than one outcome; then the pool is asked
RETRY_MS = 10  # until plans are looked at again that another worker has


class IdleDrain:
    """Reads as the consumer of this process's engine, and has that apply what was read."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._read: list[StreamEntry] = []  # what the engine was not given yet
        self._look: object = None  # of the engine at what is pending, the last before that was read
        self._is_due = True  # whether the engine has to look without news: at first it compares the server
        self._busy_since = 0.0
        self._inbox: Inbox | None = None
        self.has_left = False  # whether something was, or may have been, read and is not applied

    def step(self, client: Redis, block_ms: int) -> bool:
        """Wait up to `block_ms` for outcomes, and apply them; returns whether the pool should go on.

        Raises what the store refuses; what was read is applied at the next step then.
        """
        if self._read:  # the engine could not take it: no more than that is kept from other workers
            self.finish()
        fresh = self._read_some(client, RETRY_MS if self.has_left else block_ms)
        if len(fresh) <= 1:
            self._busy_since = time.monotonic()
        self._read += fresh
        if fresh or self.has_left or self._is_due:
            self.finish()
            self._is_due = bool(fresh)  # counters, which go with the next commit, or by themselves where none comes
        is_busy = len(fresh) > 1 and time.monotonic() - self._busy_since > BUSY_S
        return is_busy or len(fresh) == MOST_AT_ONCE

    def _read_some(self, client: Redis, block_ms: int) -> Sequence[StreamEntry]:
        if self._inbox is None or self._inbox.client is not client:
            self._inbox = Inbox(client, self._partition.outcomes, "", consumer_of(self._partition.number))
        try:
            return self._inbox.read(MOST_AT_ONCE, block_ms)
        except RedisError:  # it may have been read, and the reply lost: the engine reads what is pending again
            self._look, self._is_due, self.has_left = None, True, True
            raise

    def finish(self) -> None:
        """Apply what was read, and what the engine was left with."""
        self.has_left = True
        with reported_as(OUTCOMES.task), engine_of(self._partition.number) as here:
            engine = here.context(self._partition.number).engine
            is_left = engine.apply(self._read, self._look)
            self._look = engine.pending_look
        self._read.clear()
        self.has_left = is_left
