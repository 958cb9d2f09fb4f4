"""Which options the instructions of a checkout propose to whoever sends a goal; nothing of them is run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schemas import codec
from worker.cli.commands.app import app
from worker.sources.proposals import propose

HOUSE = """# How to work here

Set up with `uv sync --all-extras`, then:

```sh
$ pytest -q tests  # all of them
touch ran && pytest
npm ci
npm ci; touch ran
pip install $(touch ran)
rm -rf .
ruff check .
pytest --junit-xml=/etc/passwd
```
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "AGENTS.md").write_text(HOUSE)
    (tmp_path / "CLAUDE.md").write_text("Also `pytest -q tests` and `pytest -x tests`.\n")
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "AGENTS.md").write_text("`pytest uncommitted`")
    return tmp_path


def test_what_the_catalogue_knows_is_proposed_once_and_no_more(checkout: Path) -> None:
    assert list(propose({}, checkout)) == [
        "AGENTS.md proposes --test-command 'pytest -q tests'. Nothing of it was run.",
        "CLAUDE.md proposes --test-command 'pytest -x tests'. Nothing of it was run.",
        "AGENTS.md proposes --setup 'uv sync --all-extras' of planner controller. Nothing of it was run.",
        "AGENTS.md proposes --setup 'npm ci' of planner controller. Nothing of it was run.",
    ]
    known = {"context": {"test_command": "pytest -q tests"}}
    assert not [note for note in propose(known, checkout) if "pytest -q" in note]
    assert not (checkout / "ran").exists()


def test_nothing_is_proposed_where_there_is_no_checkout(tmp_path: Path) -> None:
    assert list(propose({}, tmp_path)) == []


def test_a_dry_run_tells_them_and_puts_none_into_the_goal(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    words = ["submit", "--goal", "Fix a", "--file", "AGENTS.md", "--dry-run"]

    told = codec.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)

    assert "AGENTS.md proposes --test-command 'pytest -q tests'. Nothing of it was run." in told["notes"]
    assert told["goal"]["context"].get("test_command") is None
    assert not [
        note
        for note in codec.loads(CliRunner().invoke(app, [*words, "--json", "--no-fill"]).stdout)["notes"]
        if "proposes" in note
    ]
    assert "AGENTS.md proposes --setup 'npm ci'" in CliRunner().invoke(app, words).stderr
