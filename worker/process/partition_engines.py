"""The engine that a process has for each partition: its threads use it in turn, and share its hot plans."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from worker.process.container import Container, container, make

WAIT_S = 10.0  # for an engine of another thread, which releases it after a drain


class _Held:
    """A partition's engine, which one thread at a time uses."""

    def __init__(self, here: Container) -> None:
        self.lock = threading.Lock()
        self.here = here


_engines: dict[tuple[int, int], _Held] = {}  # by process and partition: a forked process makes its own
_containers: dict[int, Container] = {}  # by process
_making = threading.Lock()
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


@contextmanager
def engine_of(partition: int) -> Iterator[Container]:
    """Yield a container with an engine of a partition that no other thread uses.

    If another thread uses the shared engine for longer than WAIT_S, this thread gets a separate engine.
    """
    with engine_soon(partition, WAIT_S) as here:
        yield here or container()


@contextmanager
def engine_soon(partition: int, wait_s: float = 0.0) -> Iterator[Container | None]:
    """Yield the container with the partition's shared engine; None if another thread uses it beyond `wait_s`."""
    held = _held(partition)
    if not held.lock.acquire(timeout=wait_s):
        yield None
        return
    try:
        yield held.here
    finally:
        held.lock.release()


def forget_plans(partition: int) -> bool:
    """Drop the hot plans of a partition that another worker owns now. Return False if the engine is in use."""
    held = _engines.get((os.getpid(), partition))
    if held is None:
        return True
    if not held.lock.acquire(blocking=False):
        return False
    try:
        held.here.context(partition).store.hot.clear()
    finally:
        held.lock.release()
    return True


def consumer() -> str:
    """Return the name of the consumer for all engines of this process."""
    with _making:
        return _container().name


def _held(partition: int) -> _Held:
    place = os.getpid(), partition
    with _making:
        if place not in _engines:
            here = _container()
            here.context(partition)
            _engines[place] = _Held(here)
        return _engines[place]


def _container() -> Container:
    if os.getpid() not in _containers:
        _containers[os.getpid()] = make()
    return _containers[os.getpid()]
