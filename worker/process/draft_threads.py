"""Threads that ask drafters, which takes minutes; other work of the worker continues meanwhile."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tasks.routes import GOALS
from worker.telemetry.errors import reported_as

log = logging.getLogger("planner.drafters")

LOOK_S = 0.05  # between looks whether the last thread has ended

Work = Callable[[], bool]


class DraftThreads:
    """The threads of a process that draft, at most `most` at a time; each thread keeps a separate container."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool = ThreadPoolExecutor(most, "drafts")
        self._lock = threading.Lock()
        self._running: set[object] = set()  # one unique object for each running thread
        self._is_asked = False  # more work was requested while all were busy: a thread without work looks again
        self._ending = False

    def begin(self, work: Work) -> None:
        """Start one more thread that repeats `work` until it returns False.

        If no thread is available, this is logged and nothing starts.
        """
        with self._lock:
            if self._ending:
                return
            self._is_asked = len(self._running) == self._most
            if self._is_asked:
                return
            place = object()
            self._running.add(place)
            try:
                self._pool.submit(self._run, place, work)
            except RuntimeError as error:  # the system provides no thread; the work may remain in the pool's queue
                self._running.remove(place)
                log.warning("drafting not begun", extra={"error": str(error)})

    def end(self) -> None:
        """Start no more threads or work."""
        self._ending = True

    def stop(self) -> None:
        """Start no more work, and wait until the running work ends."""
        self.end()
        while self._running:
            time.sleep(LOOK_S)

    def _run(self, place: object, work: Work) -> None:
        with self._lock:
            if place not in self._running:  # it was given up as it was begun
                return
        try:
            self._work(work)
            while self._goes_on(place):
                self._work(work)
        finally:  # else there would be one thread fewer for ever, and `stop` would wait for it
            with self._lock:
                self._running.discard(place)

    def _work(self, work: Work) -> None:
        try:
            with reported_as(GOALS.task):
                while not self._ending and work():
                    pass
        except BaseException as error:  # such as a store that is away; it is begun again soon
            log.warning("drafting interrupted", extra={"error": f"{type(error).__name__}: {error}"})

    def _goes_on(self, place: object) -> bool:
        """Return whether more work was requested meanwhile; if not, or at the end, record that this thread ends."""
        with self._lock:
            if self._ending or not self._is_asked:
                self._running.remove(place)
                return False
            self._is_asked = False
            return True


_threads: dict[int, DraftThreads] = {}  # of this process, by its id: a process that was forked makes its own
_lock = threading.Lock()


def begin(work: Work, most: int) -> None:
    """Do `work` in one of at most `most` threads of this process, and return at once."""
    with _lock:
        if os.getpid() not in _threads:
            _threads[os.getpid()] = DraftThreads(most)
    _threads[os.getpid()].begin(work)


def end() -> None:
    """Start no more work in this process."""
    if found := _threads.get(os.getpid()):
        found.end()


def stop() -> None:
    """Start no more work in this process, and wait for the running work."""
    if found := _threads.get(os.getpid()):
        found.stop()
