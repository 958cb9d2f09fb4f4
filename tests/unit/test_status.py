"""The file by which a worker shows that it lives, and `planner health`, which reads it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from worker.cli.commands.app import app
from worker.settings.settings import Settings
from worker.telemetry.status import FRESH_S, LAG_S, Status, StatusFile, living_workers, remove


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path / "state"))
    return Settings()


def a_status(**said: object) -> Status:
    now = time.time()
    fields = {"pid": os.getpid(), "host": socket.gethostname(), "started": now, "beat": now}
    well = {"streams": {"planner:goals": now}, "store": True, "broker": True, "sweep_lag_s": 0.0}
    return Status.model_validate({**fields, **well, **said})


def health(*words: str) -> tuple[int, str]:
    answer = CliRunner().invoke(app, ["health", *words])
    return answer.exit_code, answer.stdout.strip()


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_what_was_written_is_read(settings: Settings) -> None:
    StatusFile(settings).write(status := a_status())

    assert living_workers(settings) == [status]
    assert health() == health("--live") == (0, "Live: 1 worker.")
    assert health("--ready") == (0, "Ready: 1 worker.")


def test_without_a_worker_nothing_is_live(settings: Settings) -> None:
    assert health("--live") == (1, f"Not live: no worker of this machine beats in {settings.state_dir}.")


def test_a_worker_that_has_not_beaten_for_a_while_is_not_live(settings: Settings) -> None:
    StatusFile(settings).write(a_status(beat=time.time() - FRESH_S))

    assert health("--live")[0] == 1


def test_the_file_of_a_dead_process_is_ignored_and_removed(settings: Settings) -> None:
    StatusFile(settings).write(a_status(pid=dead_pid()))
    assert settings.state_dir

    assert health("--live")[0] == 1
    assert list(settings.state_dir.iterdir()) == []


def test_the_file_of_another_host_is_none_of_our_business(settings: Settings) -> None:
    assert settings.state_dir
    StatusFile(settings).write(a_status(pid=dead_pid()))
    ours = next(settings.state_dir.iterdir())
    theirs = ours.rename(settings.state_dir / "worker-elsewhere-1.json")

    assert health("--live")[0] == 1
    assert theirs.exists()


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ({"streams": {}}, "it consumes nothing"),
        ({"streams": {"planner:goals": 1.0}}, "nobody watches planner:goals"),
        ({"store": False}, "the store does not answer"),
        ({"sweep_lag_s": LAG_S}, "due timers wait for 10 s"),
    ],
)
def test_a_worker_in_trouble_is_live_but_not_ready(settings: Settings, said: dict[str, object], trouble: str) -> None:
    StatusFile(settings).write(a_status(**said))

    assert health("--live")[0] == 0
    assert health("--ready") == (1, f"Not ready: worker {os.getpid()}: {trouble}.")


def test_a_script_gets_it_as_json(settings: Settings) -> None:
    StatusFile(settings).write(status := a_status(store=False))

    code, printed = health("--ready", "--json")

    said = json.loads(printed)
    assert (code, said["ok"], said["workers"]) == (1, False, [status.model_dump(mode="json")])
    assert "the store does not answer" in said["detail"]


def test_a_broken_file_is_no_worker(settings: Settings) -> None:
    StatusFile(settings).write(a_status())
    assert settings.state_dir
    next(settings.state_dir.iterdir()).write_text('{"pid": ')

    assert living_workers(settings) == []


def test_at_its_end_a_process_takes_its_file_down(settings: Settings) -> None:
    StatusFile(settings).write(a_status())
    remove(settings)

    assert living_workers(settings) == []


def test_where_it_cannot_write_a_worker_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path / "file"))
    file = StatusFile(Settings())

    file.write(a_status())
    file.write(a_status())

    assert [record.message for record in caplog.records] == ["no state directory"]
