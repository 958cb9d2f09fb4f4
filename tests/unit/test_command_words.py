"""The words that a command is given: names are UTF-8, whatever bytes a shell hands over, and files are as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schemas import codec
from worker.cli.commands.app import app

BROKEN = os.fsdecode(b"a\xffb")


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        *([*("memory", what), BROKEN] for what in ("show", "forget", "export")),
        *(["memory", what, "shop", "--tenant", BROKEN] for what in ("show", "forget", "export")),
        ["memory", "list", "--tenant", BROKEN],
        ["memory", "forget", "shop", "--test", BROKEN],
        ["memory", "import", BROKEN],
        ["plans", "--repo", BROKEN],
        ["show", BROKEN],
        ["replay", "ci-1", BROKEN],
        ["submit", "--goal", "Fix it", "--file", BROKEN],
    ],
)
def test_a_word_that_is_not_utf_8_is_wrong_use_of_every_command(words: list[str]) -> None:
    found = CliRunner().invoke(app, words)

    assert isinstance(found.exception, SystemExit), found.exception
    assert (found.exit_code, found.stderr) == (2, "a\\udcffb is not UTF-8: only the name of a file need not be.\n")


def test_a_script_is_told_that_as_a_problem() -> None:
    found = CliRunner().invoke(app, ["memory", "show", BROKEN, "--json"])

    assert (found.exit_code, codec.loads(found.stdout)["code"]) == (2, "not_utf8")


@pytest.mark.parametrize("words", [["memory", "import"], ["replay"], ["submit"]])
def test_a_file_is_read_whatever_bytes_its_name_has(words: list[str]) -> None:
    Path(BROKEN).write_text("{")

    found = CliRunner().invoke(app, [*words, BROKEN])

    assert isinstance(found.exception, SystemExit), found.exception
    assert "UTF-8" not in found.output
    assert "JSON" in found.output or "no export" in found.output
