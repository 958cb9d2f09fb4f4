"""`planner log --follow` ends with its plan, whichever line it was to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from schemas import codec
from worker.cli.commands import log as command
from worker.render.log import tell_line

END = codec.dumps({"version": 3, "now": 3, "in": [], "moves": [["", "EXECUTING", "HALTED"]]})
OTHER = codec.dumps({"version": 2, "now": 2, "in": [], "moves": []})


class Growing:
    """A plan whose log has more lines each time that somebody looks."""

    def __init__(self, *logs: list[bytes]) -> None:
        self.logs = [*logs]

    def log(self, _: str, first: int) -> Iterator[bytes]:
        lines = self.logs.pop(0) if len(self.logs) > 1 else self.logs[0]
        yield from lines[first:]

    def plan(self, _: str) -> Any:
        return SimpleNamespace(ended_at="2026-11-01T00:00:00Z" if END in self.logs[0] else None)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOOK_S", 0)


def followed(first: int, *logs: list[bytes]) -> list[bytes]:
    return [*command.lines_of(cast("Any", Growing(*logs)), "plan", first, goes_on=True)]


def test_it_waits_for_the_line_that_ends_the_plan() -> None:
    assert followed(0, [OTHER], [OTHER], [OTHER, END]) == [OTHER, END]


def test_it_ends_where_the_end_lies_before_the_first_line_that_is_wanted() -> None:
    assert followed(50, [OTHER], [OTHER, END]) == []


def test_a_command_that_was_refused_is_not_told_like_one_that_was_obeyed() -> None:
    said = {"command": "skip", "actor": "root"}
    lines = [{"version": 2, "now": 2, "in": [["command", said, *more]], "moves": []} for more in ([], ["It is done."])]

    obeyed, refused = (tell_line(7, codec.dumps(line)) for line in lines)

    assert obeyed.endswith("v2      skip root")
    assert refused.endswith("v2      skip root; refused: It is done.")
