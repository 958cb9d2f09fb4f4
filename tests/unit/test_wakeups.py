"""When a broker that did not take a wake-up is tried again, and when it counts as back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.exceptions import OperationalError
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import OutOfMemoryError

from worker.process.solo_pool import Solo
from worker.process.wakeup import FULL_RETRY_S, RETRY_S, Wakeups
from worker.process.wakeup_ledger import Key, Ledger, Request, WakeupState
from worker.telemetry.outage import Outage


class App:
    """Celery's app, as far as wake-ups are sent by it: `send` stands for the broker."""

    conf = SimpleNamespace(broker_transport_options={})

    def __init__(self, send: Callable[[], None]) -> None:
        self.send = send

    def connection_for_write(self, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(collect=lambda **_: None)

    def send_task(self, *_: Any, **__: Any) -> None:
        self.send()


@pytest.mark.parametrize(
    ("cause", "longest"), [(OutOfMemoryError("maxmemory"), FULL_RETRY_S), (NoConnection("away"), RETRY_S[-1])]
)
def test_a_broker_that_is_full_is_tried_again_sooner_than_one_that_is_away(
    cause: Exception, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("worker.process.wakeup.time.monotonic", lambda: now[0])
    tried: list[float] = []

    def refuse() -> None:
        tried.append(now[0])
        raise OperationalError("no") from cause

    one = Wakeups(App(refuse), Outage("broker"), Ledger(1), dict, Solo())
    for second in range(100):
        now[0] = float(second)
        assert not one.send(Key("planner.outcomes", (0,)))

    assert max(later - earlier for earlier, later in pairwise(tried)) == longest


def test_a_broker_is_back_when_this_worker_hears_from_it_and_is_tried_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer looks for the broker at other times than the sender, which may find it seconds earlier."""
    now = [100.0]
    monkeypatch.setattr("worker.process.wakeup.time.monotonic", lambda: now[0])
    caplog.set_level(logging.INFO, "planner.outage")
    hears: dict[str, Request] | None = None
    refusal: Exception | None = OperationalError("refused")
    key = Key("planner.outcomes", (0,))

    def send() -> None:
        if refusal:
            raise refusal

    one = Wakeups(App(send), Outage("broker"), Ledger(1), lambda: hears, Solo())
    assert one.state(key, 10) is WakeupState.FREE  # nobody has missed the broker yet
    for _ in RETRY_S:
        assert not one.send(key)
        now[0] += RETRY_S[-1]
    refusal = None

    assert one.state(key, 10) is WakeupState.DEAF
    assert one.send(Key("planner.commands"))
    assert one.state(key, 10) is WakeupState.DEAF
    assert [record.message for record in caplog.records] == ["broker away"]
    refusal = OperationalError("refused")
    assert not one.send(key)
    refusal, hears = None, {}

    assert one.state(key, 10) is WakeupState.FREE
    assert one.send(key)
    assert [record.message for record in caplog.records] == ["broker away", "broker back"]
