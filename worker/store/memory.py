"""The memory of the server: its use, and the limits for dead letters and events."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `planner health` reads what is here without it
    from redis import Redis

GOALS_UP_TO = 0.8  # of maxmemory: above it new goals are refused
STEPS_UP_TO = 0.9  # above it no step is started; attempts in flight may still end
REFUSED_FROM = {
    1.0: "goals, outcomes and commands are refused where they are published",
    STEPS_UP_TO: "no step is started",
    GOALS_UP_TO: "new goals are refused",
}
LOOK_S = 1.0
TIGHT_LOOK_S = 0.05  # while something is refused: so freed memory is noticed at once
DEAD_SHARE = 0.1  # of maxmemory that all dead streams keep together, unless set
EVENTS_SHARE = 1 / 32  # of maxmemory that the events of all partitions keep together
UNLIMITED = 2 * 1024**3  # bytes that count as maxmemory where a server has none


def refused_at(share: float) -> str:
    """Return the kinds of input that are refused at this share of used memory; empty if none is."""
    return next((refused for least, refused in REFUSED_FROM.items() if share >= least), "")


def share_of(info: Mapping[str, Any]) -> float:
    """Return the used share of `maxmemory` from INFO memory, 0 to 1, as the server itself counts.

    Buffers for the append-only file and for replicas are left out: a slow disk is no full memory. 0 if the server has
    no limit.
    """
    limit = int(info.get("maxmemory", 0))
    used = int(info["used_memory"]) - int(info.get("mem_not_counted_for_evict", 0))
    return used / limit if limit else 0.0


class ServerMemory:
    """The server's memory, read at most every LOOK_S, or every TIGHT_LOOK_S while something is refused.

    Dead letters may use `dead_share` of it, in `dead_streams` streams; events are in `partitions` streams. Several
    threads may ask.
    """

    def __init__(
        self, client: Redis, dead_share: float = DEAD_SHARE, dead_streams: int = 3, partitions: int = 1
    ) -> None:
        self._client = client
        self._dead_share = dead_share
        self._dead_streams = dead_streams
        self._partitions = partitions
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._share = 0.0
        self._limit = 0

    @property
    def share(self) -> float:
        """The used share, 0 to 1; 0 if the server has no limit."""
        return self._look()

    @property
    def takes_goals(self) -> bool:
        """Whether there is capacity for a new plan."""
        return self._look() < GOALS_UP_TO

    @property
    def takes_steps(self) -> bool:
        """Whether there is capacity for a new attempt."""
        return self._look() < STEPS_UP_TO

    def dead_bytes(self) -> int:
        """Return the maximum size of one dead stream, in bytes."""
        self._look()
        return int((self._limit or UNLIMITED) * self._dead_share / self._dead_streams)

    def event_bytes(self) -> int:
        """Return the maximum size of the events of one partition, in bytes."""
        self._look()
        return int((self._limit or UNLIMITED) * EVENTS_SHARE / self._partitions)

    def _look(self) -> float:
        if not self._is_fresh():
            with self._lock:  # another thread decides by no figure before the reply to the first look
                if not self._is_fresh():
                    found = self._client.info("memory")
                    self._limit, self._share = int(found.get("maxmemory", 0)), share_of(found)
                    self._looked = time.monotonic()
        return self._share

    def _is_fresh(self) -> bool:
        patience = TIGHT_LOOK_S if self._share >= GOALS_UP_TO else LOOK_S
        return time.monotonic() - self._looked < patience
