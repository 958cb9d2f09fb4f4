"""Builds the commands of a worker and of a gateway process, and delays stop signals until it is ready for them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat")
_nodes = count(1)


@contextmanager
def stop_signals_wait() -> Iterator[None]:
    """Delay SIGTERM here, and in processes started meanwhile until they call `start.end_well_when_stopped`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def gateway_command(listener: int) -> list[str]:
    """Return the command of a gateway that accepts connections on a socket; it can start in any folder."""
    start = [sys.executable, "-P", "-c", "from worker.start import planner; planner()"]
    return [*start, "gateway", "--listener", str(listener)]


def worker_command(
    pool: str = "prefork",
    concurrency: int = 1,
    queues: str | None = None,
    level: str = "INFO",
    recycle: int | None = None,
) -> list[str]:
    """Return the command of a worker process, which begins in worker/start.py.

    Nothing is imported from the current folder, which may have its own `tasks.py`.
    """
    node = f"planner-{os.getpid()}-{next(_nodes)}@%h"  # two workers of a host must not share a name
    only = ["--queues", queues] if queues else []
    only += ["--max-tasks-per-child", str(recycle)] if recycle else []
    start = [sys.executable, "-P", "-m", "worker.start", "--quiet", "--app", "worker", "worker", *FLAGS]
    flags = ["--hostname", node, "--pool", str(pool), "--concurrency", str(concurrency), "--loglevel", str(level)]
    return [*start, *flags, *only]
