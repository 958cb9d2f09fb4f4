"""The version stands in pyproject.toml; the commit is noted in what is built, and known to git in a checkout."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from worker.host import code_version
from worker.host.git import Git

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the module believes to lie: no checkout."""
    monkeypatch.setattr(code_version, "HERE", tmp_path / "worker/host/code_version.py")
    monkeypatch.setattr(code_version, "CHECKOUT", tmp_path)
    (tmp_path / "worker/host").mkdir(parents=True)
    return tmp_path


def test_the_version_is_that_of_pyproject_and_one_module_reads_it() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == code_version.CODE_VERSION
    readers = [path for path in (ROOT / "worker").rglob("*.py") if "importlib.metadata" in path.read_text()]
    assert [path.name for path in readers] == ["code_version.py"]


def test_the_commit_is_the_one_noted_at_the_build(installed: Path) -> None:
    (installed / "worker/host/commit.txt").write_text("0123456789ab\n")
    assert code_version.commit() == "0123456789ab"


def test_a_checkout_asks_git_for_its_commit(installed: Path) -> None:
    git = Git(installed)
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "Begin")
    assert re.fullmatch("[0-9a-f]{12}", code_version.commit())


def test_the_commit_is_unknown_where_neither_tells_it(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_version.commit() == "unknown"
    (installed / ".git").mkdir()  # no repository
    assert code_version.commit() == "unknown"
    monkeypatch.setenv("PATH", "")
    assert code_version.commit() == "unknown"
