"""Controls the time limit of a command, for tests of a timeout: it starts only after the command has really begun."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from worker.sandbox import process

MOST_S = 60.0  # then it passes all the same


def time_begins_when(begun: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass for commands until `begun` holds, however long they take to start."""
    first = time.monotonic()

    def now() -> float:
        return time.monotonic() if begun() or time.monotonic() > first + MOST_S else first

    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=now))
