"""A signal to stop reaches a program whatever that does at the moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal
from threading import Event
from worker.host.stop_signals import stop_on_signals

stop = Event()
with stop_on_signals(stop):
    {moment}
    stop.wait()
with stop_on_signals(Event()):
    pass
"""
IN_STOP_WAIT = """
    with stop._cond:  # as `stop.wait` does at its beginning and at its end
        os.kill(os.getpid(), signal.SIGTERM)
"""
TO_ANOTHER_THREAD = """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # of the main thread, as in the moment of a fork
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("moment", [IN_STOP_WAIT, TO_ANOTHER_THREAD])
def test_a_signal_sets_stop_in_whatever_moment_and_thread_it_comes(moment: str) -> None:
    program = PROGRAM.format(moment=moment.strip())
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
