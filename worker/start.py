"""The first moments of a process: told to stop before anything has begun, it ends with 0.

`planner` starts here, and so does a worker: `python -m worker.start` is `python -m celery` for a planner's worker. Only
our own signal handler, set before the slow imports, and a signal that waits across fork and exec make that hold.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import count

LASTING = frozenset({"worker", "controller", "up"})  # the commands that run until they are told to stop
FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat")
_nodes = count(1)


def planner() -> None:
    """Run the command line."""
    if len(sys.argv) > 1 and sys.argv[1] in LASTING:
        end_well_when_stopped()
    import_module("worker.cli.commands.app").main()


def end_well_when_stopped() -> None:
    """Let SIGTERM end this process with 0 until somebody else takes care of it; hears of one that came before."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


@contextmanager
def stop_signals_wait() -> Iterator[None]:
    """Keep SIGTERM waiting, here and in what is started meanwhile; there until it calls `end_well_when_stopped`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def worker_command(
    pool: str = "prefork",
    concurrency: int = 1,
    queues: str | None = None,
    level: str = "INFO",
    recycle: int | None = None,
) -> list[str]:
    """Lay out the command of a worker process, whose own start this module is."""
    node = f"planner-{os.getpid()}-{next(_nodes)}@%h"  # two workers of a host must not share a name
    only = ["--queues", queues] if queues else []
    only += ["--max-tasks-per-child", str(recycle)] if recycle else []
    celery = [sys.executable, "-m", "worker.start", "--quiet", "--app", "worker", "worker", *FLAGS, "--hostname", node]
    return [*celery, "--pool", str(pool), "--concurrency", str(concurrency), "--loglevel", str(level), *only]


if __name__ == "__main__":
    end_well_when_stopped()
    import_module("celery.__main__").main()
