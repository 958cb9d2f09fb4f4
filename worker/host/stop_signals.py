"""Lets SIGTERM and SIGINT end what a program does, but a signal that our parent ignores stays ignored."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NUMBERS = (signal.SIGTERM, signal.SIGINT)


def heard(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return those of the signals that this process does not ignore.

    A script starts a command in the background with SIGINT ignored, and nohup one with SIGHUP ignored: Ctrl-C, or the
    end of the terminal, is not meant for that command.
    """
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set `stop`, where that is possible: in the main thread.

    A thread of its own hears of the signals and sets `stop`. A handler in Python would run in the main thread, and
    there only once that thread does something: the system may give the signal to another thread while the main thread
    waits, and a main thread that is just inside `stop.wait` holds the lock for which `stop.set` would wait.
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
