"""Keys that Redis confirmed a moment ago, so that not every request has to ask Redis for its key.

After a key is revoked or rotated, or expires, it works for at most LASTS_S longer. A wrong key is never kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from schemas.api_key import ApiKey
from worker.store.api_keys import Shown

LASTS_S = 1.0
MOST = 1000  # keys of a process; a further one takes the place of the one that was found first


class _Found(NamedTuple):
    """A key, and the time until which no new check in Redis is necessary."""

    key: ApiKey
    until: float


class KnownKeys:
    """The keys that Redis confirmed to this process, found by a request's credentials; safe for several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._found: dict[Shown, _Found] = {}  # the oldest first
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._found)

    def find(self, shown: Shown) -> ApiKey | None:
        """Return the key for these credentials; None if Redis has to be asked."""
        found = self._found.get(shown)
        return found.key if found and self.clock() < found.until else None

    def keep(self, shown: Shown, key: ApiKey, looked_at: float) -> None:
        """Keep a key that Redis confirmed; `looked_at` is the time by `clock` just before Redis was asked."""
        with self._lock:
            self._found.pop(shown, None)
            if len(self._found) >= MOST:
                self._found.pop(next(iter(self._found)))
            self._found[shown] = _Found(key, looked_at + LASTS_S)
