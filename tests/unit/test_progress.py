"""ProgressLine is told late, seldom, and never on stdout."""

from __future__ import annotations

import pytest

from worker.render import progress
from worker.render.progress import ProgressLine


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine("plans looked at") as told:
        told.step(1000)

    assert capsys.readouterr() == ("", "")


def test_what_takes_longer_tells_how_far_it_is_and_seldom(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.0)

    with ProgressLine("plans looked at") as told:
        for _ in range(1000):
            told.step(2)

    assert capsys.readouterr() == ("", "plans looked at: 2 ...\n")


def test_a_terminal_gets_one_line_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    with ProgressLine("plans looked at") as told:
        told.step()

    assert capsys.readouterr().err == "\r\x1b[2Kplans looked at: 1 ...\r\x1b[2K"
