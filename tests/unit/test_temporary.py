"""Temporary folders of processes that were killed are removed, and nobody else's."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from worker import drafters
from worker.drafters.base import FOLDERS
from worker.host import temporary
from worker.settings.settings import Settings


def test_a_start_removes_what_drafters_of_killed_workers_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary, "exists", lambda pid: pid == os.getppid())
    begins = f"{FOLDERS}{socket.gethostname()}-"
    gone, living = f"{begins}99-abc", f"{begins}{os.getppid()}-abc"
    others = (f"{begins}2-99-abc", f"{FOLDERS}elsewhere.x-99-abc", f"{FOLDERS}abc", f"{begins}x-abc")  # of other hosts
    for name in (gone, living, *others):
        (tmp_path / name / "tree").mkdir(parents=True)

    drafters.tidy_up(Settings(drafters=("none", "queue")))
    assert (tmp_path / gone).exists()  # a worker without one has no business there
    drafters.tidy_up(Settings(drafters=("none", "cli"), cli_command=("agent",)))

    assert {each.name for each in tmp_path.iterdir()} == {living, *others}
    assert temporary.prefix(FOLDERS) == f"{begins}{os.getpid()}-"
