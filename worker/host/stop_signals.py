"""Lets SIGTERM and SIGINT end what a program does."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set `stop`, where that is possible: in the main thread.

    A new thread sets `stop`. The handler runs in the main thread, which may hold the lock of `stop` at that moment, in
    `stop.wait`: had the handler to wait for that lock, both would wait for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: _thread.start_new_thread(stop.set, ())) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
