"""How full the server is: what it may still be asked to keep (DESIGN.md section 3, "allow-oom")."""

from __future__ import annotations

import time

from redis import Redis

GOALS_UP_TO = 0.8  # of maxmemory: beyond it new goals are refused
STEPS_UP_TO = 0.9  # beyond it no step is started; what is in flight may still end
LOOK_S = 1.0


class Memory:
    """The share of `maxmemory` in use, asked at most every LOOK_S; 0 where the server has no limit."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._looked = float("-inf")
        self._share = 0.0

    @property
    def share(self) -> float:
        """The share in use, 0 to 1."""
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            found = self._client.info("memory")
            limit = int(found.get("maxmemory", 0))
            self._share = int(found["used_memory"]) / limit if limit else 0.0
        return self._share

    @property
    def takes_goals(self) -> bool:
        """Whether there is room for a new plan."""
        return self.share < GOALS_UP_TO

    @property
    def takes_steps(self) -> bool:
        """Whether there is room for a new attempt."""
        return self.share < STEPS_UP_TO
