"""Ends a worker process: in its own time, or when its time is over."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from contextlib import suppress

from billiard import active_children

from worker.settings.settings import Settings
from worker.streams import release
from worker.telemetry import status

log = logging.getLogger("planner.ending")

STUCK = 70  # exit code of a worker that lived and consumed nothing (EX_SOFTWARE of sysexits.h)


def within(seconds: float, code: int, settings: Settings) -> None:
    """End this process with the exit code `code` after `seconds`, if it still runs then. Return at once."""
    threading.Thread(target=_end, args=(seconds, code, settings), name="ending", daemon=True).start()


def tidy_up(settings: Settings, children: tuple[int, ...] = ()) -> None:
    """Release the claims that this process and its children still have, and remove this worker's status file."""
    release.release_claims(settings, [os.getpid(), *children])
    status.remove(settings)


def _end(seconds: float, code: int, settings: Settings) -> None:
    time.sleep(seconds)
    log.warning("stopped in the middle", extra={"after_s": seconds, "exit_code": code})
    children = tuple(child.pid for child in active_children())
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        tidy_up(settings, children)
    finally:
        logging.shutdown()
        os._exit(code)
