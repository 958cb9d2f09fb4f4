"""The table of log events in docs/logs.md has every event that the code logs, and no other."""

from __future__ import annotations

import re

from tests.support.documented import DOCS
from tests.support.log_calls import log_events

ROW = re.compile(r"\| `([^`]+)` \| ([^|]+) \| ([^|]*) \| ([^|]+) \|")


def test_every_event_is_in_the_table_with_its_level_and_its_fields() -> None:
    section = (DOCS / "logs.md").read_text()
    rows = ROW.findall(section)
    found = log_events()

    assert sorted(event for event, *_ in rows) == sorted(found)
    for event, levels, fields, advice in rows:
        told = set(re.findall(r"`(\w+)`", fields))
        said = set(re.findall(r"DEBUG|INFO|WARNING|ERROR|CRITICAL", levels))
        assert said == found[event].levels or (found[event].is_level_open and said < found[event].levels), event
        assert told >= found[event].fields, event
        assert told == found[event].fields or found[event].is_open, event
        assert advice.strip(), event
