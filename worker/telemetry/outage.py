"""Outages of servers: reported once at the start and once at the end, for all threads together."""

from __future__ import annotations

import logging
import threading

log = logging.getLogger("planner.outage")

QUIET_S = 60.0
BACKOFF_S = (0.1, 0.5, 1.0, 2.0)  # between looks for a store that is away


def pause(failures: int) -> float:
    """Return the pause in seconds after a failure; `failures` is the number of failures directly before it."""
    return BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]


class Outage:
    """Tracks the threads that cannot reach the server `name`.

    Logs `<name> away` for the first such thread, and `<name> back` after the last one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._missing: set[str] = set()
        self._lock = threading.Lock()

    @property
    def lasts(self) -> bool:
        """Whether the server is away for any thread."""
        return bool(self._missing)

    def begins(self, who: str, error: Exception) -> None:
        """Record that the thread `who` cannot reach the server, because of `error`."""
        with self._lock:
            if not self._missing:
                log.warning(f"{self._name} away", extra={"error": f"{type(error).__name__}: {error}"})
            self._missing.add(who)

    def ends(self, who: str) -> bool:
        """Record that the thread `who` reaches the server. Return whether it could not reach the server before."""
        with self._lock:
            if who not in self._missing:
                return False
            self._missing.remove(who)
            if not self._missing:
                log.warning(f"{self._name} back")
            return True


class SaidSeldom(logging.Filter):
    """A log filter that passes each text once in QUIET_S: Celery logs every attempt to reach its broker."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether `record` was not logged lately."""
        if record.created - self._said.get(record.msg, -QUIET_S) < QUIET_S:
            return False
        self._said[record.msg] = record.created
        return True
