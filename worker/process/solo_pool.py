"""Plans goals in a thread beside a pool of one slot.

The slot's own thread does what else is asked for meanwhile. Celery's pool `solo` takes one wake-up at a time. Planning
a goal takes seconds where the goal is large, and minutes where a model is asked; outcomes do not wait for that. While a
goal has the slot, wake-ups do not go through the broker, which would give them to this worker only later: they are
queued here, at most one for each task and its arguments.
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

SLOW = frozenset({GOALS.task, WEBHOOKS.task})  # what goes into the thread
Do = Callable[[Key, float], None]  # what a wake-up asks for, in a share of the time that it may take


class Solo:
    """The slot, and the thread beside it.

    The thread stays with its container until the process ends.
    """

    def __init__(self) -> None:
        self.is_used = False  # whether this process has such a pool
        self._threads = ThreadPoolExecutor(1, "solo-goals")
        self._lock = threading.Lock()
        self._wakeups: SimpleQueue[Key | None] | None = (
            None  # None at its end; there is none while no goal has the slot
        )
        self._keys: set[Key] = set()  # that are queued or in hand

    def is_busy(self, key: Key) -> bool | None:
        """Whether `key` is queued or in hand here; None where it is the broker's."""
        with self._lock:
            if key in self._keys:
                return True
            return None if self._wakeups is None or key.task in SLOW else False

    def keys(self) -> set[Key]:
        """Return what is queued or in hand."""
        with self._lock:
            return set(self._keys)

    def take(self, key: Key) -> bool:
        """Queue a wake-up, unless it is there already; returns False where it is the broker's."""
        with self._lock:
            if self._wakeups is None or key.task in SLOW:
                return False
            if key not in self._keys:
                self._keys.add(key)
                self._wakeups.put(key)
            return True

    def plan(self, do: Do, key: Key, share: float) -> None:
        """Do what `key` asks for in the thread, and here what comes meanwhile.

        Raises what the former raised. A worker that is asked to stop begins nothing more, and ends with the goal that
        it has in hand.
        """
        wakeups: SimpleQueue[Key | None] = SimpleQueue()
        with self._lock:
            self._wakeups = wakeups
        planning = self._threads.submit(copy_context().run, do, key, share)  # what Sentry calls it is there
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
