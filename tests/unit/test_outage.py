"""An outage is said once when it begins and once when it is over."""

from __future__ import annotations

import logging

import pytest

from worker.telemetry.outage import Outage, SaidSeldom


def test_only_the_first_to_miss_a_server_and_the_last_to_find_it_say_so(caplog: pytest.LogCaptureFixture) -> None:
    store = Outage("store")

    for _ in range(3):
        store.begins("a", OSError("refused"))
        store.begins("b", OSError("refused"))
    store.ends("a")
    assert store.lasts
    store.ends("b")
    store.ends("b")

    assert [record.message for record in caplog.records] == ["store away", "store back"]
    assert not store.lasts


def test_a_second_outage_is_said_again(caplog: pytest.LogCaptureFixture) -> None:
    store = Outage("store")

    for _ in range(2):
        store.begins("a", OSError("refused"))
        store.ends("a")

    assert len(caplog.records) == 4


def test_what_others_repeat_passes_once_a_minute() -> None:
    seldom = SaidSeldom()

    def passes(text: str, at: float) -> bool:
        record = logging.LogRecord("celery", logging.ERROR, "", 0, text, ("x",), None)
        record.created = at
        return seldom.filter(record)

    assert passes("Cannot connect to %s", 1000.0)
    assert not passes("Cannot connect to %s", 1059.0)
    assert passes("Something else", 1059.0)
    assert passes("Cannot connect to %s", 1060.0)
