"""Shows the progress of a long command on stderr, once it takes more than a second."""

from __future__ import annotations

import sys
import time
from typing import Self

from worker.host.terminal import line, overwrite

QUIET_S = 1.0
EVERY_S = {True: 0.2, False: 10.0}  # on a terminal, where a line is written over; elsewhere


class ProgressLine:
    """Counts the finished items. On a terminal its line is removed at the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._done = 0
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + QUIET_S
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def step(self, count: int = 1) -> None:
        """Count `count` more items, and show the number if it is time for that."""
        self._done += count
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S[self._terminal]
            self._shown = True
            text = f"{self._what}: {self._done:,} ..."
            if self._terminal:
                overwrite(text)
            else:
                line(text, err=True)

    def __exit__(self, *failure: object) -> None:
        if self._shown and self._terminal:
            overwrite()
