"""The first moments of a process, which exits with 0 if it is stopped then.

`planner` starts here, and so does a worker: `python -m worker.start` is `python -m celery` for a planner's worker. This
needs our signal handler before the slow imports, and signals that wait across fork and exec.
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
    """Exit with 0 at SIGTERM, until another handler is set. A signal that came before is handled, too."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


if __name__ == "__main__":
    end_well_when_stopped()
    for ours in ("schemas", "tasks"):  # before Celery searches the current folder, which may have the same
        import_module(ours)
    import_module("celery.__main__").main()
