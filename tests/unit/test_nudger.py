"""When a broker that did not take a nudge is tried again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from kombu.exceptions import OperationalError
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import OutOfMemoryError

from worker.process.solo_pool import Solo
from worker.process.wakeup import FULL_RETRY_S, RETRY_S, Nudger
from worker.process.wakeup_ledger import Key, Ledger
from worker.telemetry.outage import Outage


@pytest.mark.parametrize(
    ("cause", "longest"), [(OutOfMemoryError("maxmemory"), FULL_RETRY_S), (NoConnection("away"), RETRY_S[-1])]
)
def test_a_broker_that_is_full_is_tried_again_sooner_than_one_that_is_away(
    cause: Exception, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("worker.process.wakeup.time.monotonic", lambda: now[0])
    tried: list[float] = []

    def refuse(*_: Any) -> None:
        tried.append(now[0])
        raise OperationalError("no") from cause

    one = Nudger(None, Outage("broker"), Ledger(1), dict, Solo())
    monkeypatch.setattr(one, "_send", refuse)
    for second in range(100):
        now[0] = float(second)
        assert not one.send(Key("planner.outcomes", (0,)))

    assert max(later - earlier for earlier, later in pairwise(tried)) == longest
