"""The engine that a process has of each partition: its threads use it in turn, and share what it knows of plans."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from worker.process.container import Container, container, make

WAIT_S = 10.0  # for an engine that another thread has; it gives it back after a drain


class _Held:
    """An engine in the container that it does not share, since no client is used by two threads at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.here = make()


_engines: dict[tuple[int, int], _Held] = {}  # by process and partition: one that was forked makes its own
_making = threading.Lock()
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


@contextmanager
def engine_of(partition: int) -> Iterator[Container]:
    """Have the container with the engine of a partition for this thread alone.

    Where another thread does not give it back the container of this thread has to do.
    """
    held = _held(partition)
    if not held.lock.acquire(timeout=WAIT_S):
        yield container()
        return
    try:
        yield held.here
    finally:
        held.lock.release()


def forget_plans(partition: int) -> None:
    """Drop what this process knows of the plans of a partition that is another worker's now."""
    held = _engines.get((os.getpid(), partition))
    if held and held.lock.acquire(blocking=False):
        try:
            held.here.context(partition).store.hot.clear()
        finally:
            held.lock.release()


def consumer_of(partition: int) -> str:
    """Name the consumer as which the engine of a partition reads."""
    return _held(partition).here.name


def _held(partition: int) -> _Held:
    place = os.getpid(), partition
    with _making:
        if place not in _engines:
            _engines[place] = _Held()
        return _engines[place]
