"""Applies the outcomes of a partition in the reader's own thread, while few come and the pool is idle.

The way over the broker and the pool takes longer than the decision. What is more than that is the pool's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tasks.routes import OUTCOMES
from worker.process.partition_engines import engine_soon
from worker.store.keys import Partition
from worker.streams.inbox import BATCH_BYTES, StreamEntry
from worker.telemetry.errors import reported_as

MOST_AT_ONCE = 64  # outcomes of a read; where more wait the pool is asked
BUSY_S = 0.03  # for which every read may find more than one outcome; then the pool is asked
SLOW_S = 0.1  # for which the other partitions may wait for this one; then the pool is asked
RETRY_S = 0.01  # until plans are looked at again that another worker has, or an engine that another thread has
QUIET_S = 0.2  # without outcomes, until counters are written by themselves that would have gone with the next commit


class IdleDrain:
    """Has the engine of this process apply what was read as its consumer."""

    def __init__(self, partition: Partition) -> None:
        self.stream = partition.outcomes
        self._number = partition.number
        self._read: list[StreamEntry] = []  # what the engine was not given yet
        self._busy_since = 0.0
        self.look: object = None  # of the engine at what is pending, the last one that is known here
        self.count = MOST_AT_ONCE  # of the next read, by the sizes of the last entries
        self.due_at = 0.0  # when the engine has to look without news, monotonic: at first it compares the server
        self.has_left = False  # whether something was, or may have been, read and is not applied

    @property
    def is_full(self) -> bool:
        """Whether no more may be read, since the engine could not take the last: it is kept from other workers."""
        return bool(self._read)

    def take(self, found: Sequence[Any], since: object) -> bool:
        """Apply what was read, as the server writes it; returns whether the pool should go on.

        `since` is what `look` was before the read was sent: what was applied as pending meanwhile is not applied again.

        Raises what the store refuses; what was read is applied at the next `finish` then.
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
        return is_busy or len(found) == MOST_AT_ONCE or now - began > SLOW_S

    def lose_reply(self) -> None:
        """Note that a reply was lost: what it had was read, and the engine reads what is pending again."""
        self.look, self.due_at, self.has_left = None, 0.0, True

    def finish(self) -> None:
        """Apply what was read, and what the engine was left with; later, if another thread has the engine."""
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


def _entry(stream: str, entry_id: bytes, flat: Sequence[bytes] | None) -> StreamEntry:
    values = iter(flat or ())
    return StreamEntry(stream, entry_id, dict(zip(values, values, strict=False)))
