"""Threads that do themselves what wake-ups ask for, while the broker takes none or no slot of the pool does."""

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
    """One thread for each task, from when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, SimpleQueue[tuple[Key, float]]] = {}
        self._keys: set[Key] = set()  # that are queued or in hand

    def do(self, key: Key, share: float = 1.0) -> None:
        """Have it done, in `share` of its time, unless it is being done; returns at once."""
        with self._lock:
            if key in self._keys:
                return
            self._keys.add(key)
            if key.task not in self._queues:
                self._queues[key.task] = SimpleQueue()
                threading.Thread(target=self._work, args=(key.task,), name=f"hand-{key.task}", daemon=True).start()
            self._queues[key.task].put((key, share))

    def are_at(self, key: Key) -> bool:
        """Return whether that is queued or in hand."""
        return key in self._keys

    def keys(self, task: str) -> set[Key]:
        """Return what of a task is queued or in hand."""
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
