"""A signal to stop reaches a program whatever that does at the moment."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal
from threading import Event
from worker.host.stop_signals import stop_on_signals

stop = Event()
with stop_on_signals(stop):
    with stop._cond:  # as `stop.wait` does at its beginning and at its end
        os.kill(os.getpid(), signal.SIGTERM)
    stop.wait()
"""


def test_a_signal_in_the_moment_in_which_stop_is_looked_at_still_sets_it() -> None:
    assert subprocess.run([sys.executable, "-c", PROGRAM], timeout=60).returncode == 0
