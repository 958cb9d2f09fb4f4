"""Applies the outcomes of a partition in the reader's own thread, while few arrive and the pool is idle.

The way over the broker and the pool takes longer than the decision. Larger loads go to the pool.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from tasks.routes import OUTCOMES
from worker.process.partition_engines import engine_soon
from worker.store.keys import Partition
from worker.streams.inbox import BATCH_BYTES, StreamEntry
from worker.telemetry.errors import reported_as

MOST_AT_ONCE = 64  # outcomes of a read; where more wait the pool is asked
READ_AT_ONCE = 512  # outcomes of a read of many partitions
LEAST_AT_ONCE = 2  # of each partition, since a single one never shows a backlog
LARGE = 16  # the pool is asked if a read may have no more outcomes, since they are large
BUSY_S = 0.03  # after this time with more than one outcome in every read, the pool is asked
SLOW_S = 0.1  # after this delay for other partitions, the pool is asked
RETRY_S = 0.01  # until plans are looked at again that another worker has, or an engine that another thread has
QUIET_S = 0.2  # without outcomes, until counters are written by themselves that would have gone with the next commit


class IdleDrain:
    """Applies outcomes that the reader read from one partition, with this process's engine for it."""

    def __init__(self, partition: Partition) -> None:
        self.stream = partition.outcomes
        self._number = partition.number
        self._read: list[StreamEntry] = []  # entries that the engine does not have yet
        self._busy_since = 0.0
        self.look: object = None  # the last known `pending_look` of the engine
        self.count = MOST_AT_ONCE  # of the next read, by the sizes of the last entries
        self.due_at = 0.0  # when the engine has to look without news, monotonic: at first it compares the server
        self.has_left = False  # whether something was, or may have been, read and is not applied

    @property
    def is_full(self) -> bool:
        """Whether no more may be read, because the engine has not taken the last entries yet."""
        return bool(self._read)

    def take(self, found: Sequence[Any], since: object) -> bool:
        """Apply entries from Redis's reply. Return whether the load is so high that the pool should continue.

        `since` is the value of `look` before the read was sent: so entries that were applied meanwhile are not applied
        again. Raises the server's errors; the next `finish` then applies the entries.
        """
        began = time.monotonic()
        self._read += [_entry(self.stream, *each) for each in found]
        if len(found) <= 1:
            self._busy_since = began
        size = sum(entry.size for entry in self._read)
        self.count = max(1, min(MOST_AT_ONCE, BATCH_BYTES * len(found) // size if size else MOST_AT_ONCE))
        self.look = since
        self.finish()
        now = time.monotonic()
        is_busy = len(found) > 1 and now - self._busy_since > BUSY_S
        return is_busy or len(found) == MOST_AT_ONCE or self.count <= LARGE or now - began > SLOW_S

    def forget_sizes(self) -> None:
        """Let the next read take MOST_AT_ONCE entries again, since the last read returned none."""
        self.count = MOST_AT_ONCE

    def lose_reply(self) -> None:
        """Record that a reply was lost: its entries are pending, and the engine will read them again."""
        self.look, self.due_at, self.has_left = None, 0.0, True

    def finish(self) -> None:
        """Apply the read entries and the engine's leftover work; if another thread uses the engine, try again later."""
        is_fresh, self.has_left = bool(self._read), True
        self.due_at = time.monotonic() + RETRY_S
        with reported_as(OUTCOMES.task), engine_soon(self._number) as here:
            if here is None:
                return
            engine = here.context(self._number).engine
            self.has_left = engine.apply(self._read, self.look)
            self.look = engine.pending_look
        self._read.clear()
        if not self.has_left:
            self.due_at = time.monotonic() + QUIET_S if is_fresh else float("inf")


def count_of(drains: Collection[IdleDrain]) -> int:
    """Return how many outcomes one read may take from each of these partitions."""
    share = max(LEAST_AT_ONCE, READ_AT_ONCE // max(1, len(drains)))
    return min([MOST_AT_ONCE, share, *(drain.count for drain in drains)])


def _entry(stream: str, entry_id: bytes, flat: Sequence[bytes] | None) -> StreamEntry:
    values = iter(flat or ())
    return StreamEntry(stream, entry_id, dict(zip(values, values, strict=False)))
