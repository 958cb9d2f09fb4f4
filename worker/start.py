"""The first moments of a process, which ends with 0 when stopped in them.

`planner` starts here, and so does a worker: `python -m worker.start` is `python -m celery` for a planner's worker. Only
our own signal handler, set before the slow imports, and a signal that waits across fork and exec make that hold.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

LASTING = frozenset({"worker", "controller", "up", "gateway", "exporter"})  # commands that run until they are stopped


def planner() -> None:
    """Run the command line."""
    if len(sys.argv) > 1 and sys.argv[1] in LASTING:
        end_well_when_stopped()
    import_module("worker.cli.commands.app").main()


def end_well_when_stopped() -> None:
    """Let SIGTERM end this process with 0 until somebody else handles it.

    Hears of one that came before.
    """
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


if __name__ == "__main__":
    end_well_when_stopped()
    for ours in ("schemas", "tasks"):  # before Celery looks into the current folder, which may have some of its own
        import_module(ours)
    import_module("celery.__main__").main()
