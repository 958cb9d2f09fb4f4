"""Plans goals in a separate thread, for a pool of one slot.

Celery's pool `solo` takes one wake-up at a time. Planning a goal takes seconds if the goal is large, and minutes if a
drafter is asked; outcomes must not wait for that. So the slot's own thread does other work meanwhile. While a goal has
the slot, wake-ups do not go to the broker, which would deliver them only later. They are queued here, at most one for
each task and its arguments.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from queue import SimpleQueue

from celery.worker import state

from tasks.routes import GOALS, WEBHOOKS
from worker.process.wakeup_ledger import Key
from worker.telemetry.errors import reported_as

log = logging.getLogger("planner.solo")

SLOW = frozenset({GOALS.task, WEBHOOKS.task})  # tasks for the second thread
Do = Callable[[Key, float], None]  # does the work of a wake-up in a share of its time


class Solo:
    """The slot, and its second thread, which stays with its container until the process ends."""

    def __init__(self) -> None:
        self.is_used = False  # whether this process has such a pool
        self._threads = ThreadPoolExecutor(1, "solo-goals")
        self._lock = threading.Lock()
        self._wakeups: SimpleQueue[Key | None] | None = None  # None at its end; no queue while no goal has the slot
        self._keys: set[Key] = set()  # queued or in progress

    def is_busy(self, key: Key) -> bool | None:
        """Return whether `key` is queued or in progress here; None if wake-ups go to the broker."""
        with self._lock:
            if key in self._keys:
                return True
            return None if self._wakeups is None or key.task in SLOW else False

    def keys(self) -> set[Key]:
        """Return the keys that are queued or in progress."""
        with self._lock:
            return set(self._keys)

    def take(self, key: Key) -> bool:
        """Queue a wake-up unless it is queued already. Return False if it has to go to the broker."""
        with self._lock:
            if self._wakeups is None or key.task in SLOW:
                return False
            if key not in self._keys:
                self._keys.add(key)
                self._wakeups.put(key)
            return True

    def plan(self, do: Do, key: Key, share: float) -> None:
        """Do the work of `key` in the second thread; meanwhile this thread does the wake-ups that arrive.

        Raises the errors of the work. When the worker is being stopped, nothing new starts, and it ends after the
        current goal.
        """
        wakeups: SimpleQueue[Key | None] = SimpleQueue()
        with self._lock:
            self._wakeups = wakeups
        planning = self._threads.submit(copy_context().run, do, key, share)  # Sentry's context is in it
        planning.add_done_callback(lambda _: self._end(wakeups))
        while each := wakeups.get():
            if state.should_stop is None:
                self._do(do, each)
        planning.result()

    def _end(self, wakeups: SimpleQueue[Key | None]) -> None:
        with self._lock:
            self._wakeups = None
            wakeups.put(None)

    def _do(self, do: Do, key: Key) -> None:
        with self._lock:
            share = 1 / len(self._keys)
        try:
            with reported_as(key.task):
                do(key, share)
        except Exception:  # the goal goes on, and the wake-up comes again
            log.exception("nudge failed", extra={"task": key.task})
        finally:
            with self._lock:
                self._keys.discard(key)


HERE = Solo()  # of this process
