"""How full the server is: what it may keep, and what the dead may take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `planner health` reads what is here without it
    from redis import Redis

GOALS_UP_TO = 0.8  # of maxmemory: beyond it new goals are refused
STEPS_UP_TO = 0.9  # beyond it no step is started; what is in flight may still end
REFUSED_FROM = {
    1.0: "goals, outcomes and commands are refused where they are published",
    STEPS_UP_TO: "no step is started",
    GOALS_UP_TO: "new goals are refused",
}
LOOK_S = 1.0
TIGHT_LOOK_S = 0.05  # while something is refused: what is free again is noticed at once
DEAD_SHARE = 0.1  # of maxmemory that all dead streams keep together, unless set
EVENTS_SHARE = 1 / 32  # of maxmemory that the events of all partitions keep together
UNLIMITED = 2 * 1024**3  # bytes that count as maxmemory where a server has none


def refused_at(share: float) -> str:
    """Return what is refused where so much of the memory is in use.

    Nothing where all is taken.
    """
    return next((refused for least, refused in REFUSED_FROM.items() if share >= least), "")


def share_of(info: Mapping[str, Any]) -> float:
    """Read from INFO memory how much of `maxmemory` is in use, 0 to 1, as the server itself counts.

    What waits to be written to the append-only file or to replicas is left out: a slow disk is no full memory. 0 where
    the server has no limit.
    """
    limit = int(info.get("maxmemory", 0))
    used = int(info["used_memory"]) - int(info.get("mem_not_counted_for_evict", 0))
    return used / limit if limit else 0.0


class ServerMemory:
    """The server's memory, asked for at most every LOOK_S.

    While something is refused it is every TIGHT_LOOK_S.

    `dead_share` of it may be taken by what died, in `dead_streams` streams; events lie in `partitions` streams.
    """

    def __init__(
        self, client: Redis, dead_share: float = DEAD_SHARE, dead_streams: int = 3, partitions: int = 1
    ) -> None:
        self._client = client
        self._dead_share = dead_share
        self._dead_streams = dead_streams
        self._partitions = partitions
        self._looked = float("-inf")
        self._share = 0.0
        self._limit = 0

    @property
    def share(self) -> float:
        """The share in use, 0 to 1; 0 where the server has no limit."""
        return self._look()

    @property
    def takes_goals(self) -> bool:
        """Whether there is room for a new plan."""
        return self._look() < GOALS_UP_TO

    @property
    def takes_steps(self) -> bool:
        """Whether there is room for a new attempt."""
        return self._look() < STEPS_UP_TO

    def dead_bytes(self) -> int:
        """Return how many bytes one dead stream may keep."""
        self._look()
        return int((self._limit or UNLIMITED) * self._dead_share / self._dead_streams)

    def event_bytes(self) -> int:
        """Return how many bytes the events of one partition may keep."""
        self._look()
        return int((self._limit or UNLIMITED) * EVENTS_SHARE / self._partitions)

    def _look(self) -> float:
        patience = TIGHT_LOOK_S if self._share >= GOALS_UP_TO else LOOK_S
        if time.monotonic() - self._looked >= patience:
            self._looked = time.monotonic()
            found = self._client.info("memory")
            self._limit, self._share = int(found.get("maxmemory", 0)), share_of(found)
        return self._share
