"""How long a child of the pool waits at its end."""

from __future__ import annotations

from multiprocessing import Value

import pytest
from billiard import pool

import worker.celery  # which limits the wait


def test_a_child_whose_last_result_nobody_reads_ends_within_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker.celery.app
    waits: list[float] = []
    monkeypatch.setattr(pool.time, "sleep", waits.append)
    child = object.__new__(pool.Worker)
    child.on_ready_counter = Value("i", 7)

    assert child._ensure_messages_consumed(completed=8) is False
    assert sum(waits) <= 2.001
