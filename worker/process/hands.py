"""Threads that do the work of wake-ups themselves, while the broker or the pool takes none."""

from __future__ import annotations

import logging
import threading
import time
from queue import SimpleQueue

from redis.exceptions import RedisError

from worker.process import jobs
from worker.process.wakeup_ledger import Key
from worker.telemetry.errors import reported_as
from worker.telemetry.outage import pause

log = logging.getLogger("planner.ingress")


class Hands:
    """One thread for each task, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, SimpleQueue[tuple[Key, float]]] = {}
        self._keys: set[Key] = set()  # queued or in progress

    def do(self, key: Key, share: float = 1.0) -> None:
        """Queue the work of a wake-up for the thread of its task, unless it is queued or in progress; return at once.

        `share` is the share of its usual time that the work may take.
        """
        with self._lock:
            if key in self._keys:
                return
            self._keys.add(key)
            if key.task not in self._queues:
                self._queues[key.task] = SimpleQueue()
                threading.Thread(target=self._work, args=(key.task,), name=f"hand-{key.task}", daemon=True).start()
            self._queues[key.task].put((key, share))

    def are_at(self, key: Key) -> bool:
        """Return whether the work is queued or in progress."""
        return key in self._keys

    def keys(self, task: str) -> set[Key]:
        """Return the keys of a task that are queued or in progress."""
        with self._lock:
            return {key for key in self._keys if key.task == task}

    def _work(self, task: str) -> None:
        failures = 0
        while True:
            key, share = self._queues[task].get()
            try:
                with reported_as(task):
                    jobs.do(key, share / max(1, len(self.keys(task))))
                failures = 0
            except Exception as error:  # what reads the streams reports a store that is away
                if not isinstance(error, RedisError):
                    log.exception("ingress failed", extra={"stream": task})
                time.sleep(pause(failures))
                failures += 1
            finally:
                with self._lock:
                    self._keys.discard(key)
