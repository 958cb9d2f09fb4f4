"""Ends a program's work at SIGTERM and SIGINT; a signal that the parent ignores stays ignored."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NUMBERS = (signal.SIGTERM, signal.SIGINT)


def heard(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return those of the given signals that this process does not ignore.

    Scripts start background commands with SIGINT ignored, and nohup ignores SIGHUP. Such a signal is not meant for this
    process.
    """
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` at SIGTERM and SIGINT during the block, if this is the main thread; else do nothing.

    A separate thread receives the signals. A Python handler would run only when the main thread executes code, and the
    system may deliver the signal to another thread. Also, a main thread inside `stop.wait` has the lock that `stop.set`
    needs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    listener = threading.Thread(target=_listen, args=(reader, stop), name="stop-signals", daemon=True)
    listener.start()
    before = {number: signal.signal(number, lambda *_: None) for number in heard(*NUMBERS)}
    descriptor = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writer)
        listener.join()
        os.close(reader)


def _listen(reader: int, stop: threading.Event) -> None:
    """Set `stop` for each signal that arrives, until the pipe is closed."""
    while told := os.read(reader, 1):
        if told[0] in NUMBERS:
            stop.set()
