"""What a controller keeps of each attempt: what the agent printed and changed, and what the verification said."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from schemas.outcome import Outcome
from tests.conftest import wait_until
from tests.support.controlling import FIX, PLAN, PYTEST, Planner, Repo
from tests.support.job_time import time_begins_when
from worker.controller import logs_folder
from worker.controller.logs_folder import LogsFolder

pytestmark = pytest.mark.outages  # each has a controller, agents and git

Start = Callable[..., None]
HUNG = {"tool": "sleep", "argv": ["sleep", "60"], "timeout_s": 0.5}


@pytest.fixture
def logs(tmp_path: Path) -> LogsFolder:
    folder = LogsFolder(tmp_path / "logs")
    folder.make()
    return folder


def kept(logs: LogsFolder, step: str, attempt: int = 1) -> dict[str, str]:
    return {file.name: file.read_text() for file in logs.place(PLAN, step, attempt).iterdir()}


def check_transcript(outcome: Outcome) -> None:
    assert outcome.transcript
    found = hashlib.sha256(Path(outcome.transcript.path).read_bytes()).hexdigest()
    assert outcome.transcript.digest == f"sha256:{found}"


def test_what_an_attempt_did_is_kept_whether_it_failed_or_not(
    planner: Planner, repo: Repo, start: Start, logs: LogsFolder
) -> None:
    say = "print('thinking'); print('oh', file=sys.stderr)"
    patch: dict[str, Any] = {"allowed_files": ["calc.py"], "verify_tools": [PYTEST]}
    planner.send("fix", intent=f"{say}; {FIX}", **patch)
    planner.send("wrong", intent="write('calc.py', 'def add(a, b):\\n    return 7\\n')", **patch)
    planner.send("refused", intent="write('words.py', 'mine'); write('new.bin', '\\0')", **patch)
    planner.send("gone", intent="write('calc.py', '# half'); sys.exit('I give up')", **patch)
    planner.send("hung", mode="test", verify_tools=[HUNG])
    start(logs=logs, is_strict=True)

    for step, success in {"fix": True, "wrong": False, "refused": False, "gone": False, "hung": False}.items():
        outcome = planner.outcome(step)
        assert (step, outcome.success) == (step, success)
        check_transcript(outcome)
    fix, wrong, refused, gone, hung = (kept(logs, step) for step in ("fix", "wrong", "refused", "gone", "hung"))
    assert fix["transcript"] == "thinking\n\n--- standard error ---\noh\n"
    assert hashlib.sha256(fix["changes.diff"].encode()).hexdigest() == planner.outcome("fix").diff_hash
    assert "-    return a - b\n+    return a + b\n" in fix["changes.diff"]
    assert fix["verification.txt"].startswith("$ ")
    assert "exit code 0 after " in fix["verification.txt"]
    assert "1 passed" in fix["verification.txt"]
    assert codec.loads(fix["outcome.json"].encode())["success"]
    assert codec.loads(fix["spec.json"].encode())["a_field_of_the_future"]
    assert "lease-of-fix" not in fix["spec.json"] + fix["outcome.json"]
    assert "exit code 1 after " in wrong["verification.txt"]
    assert "+    return 7\n" in wrong["changes.diff"]
    assert {"+mine", "diff --git a/new.bin b/new.bin"} <= set(refused["changes.diff"].splitlines())
    assert "+# half\n" in gone["changes.diff"]
    assert "I give up" in gone["transcript"]
    assert "exit code 124, out of time" in hung["verification.txt"]
    assert (hung["transcript"], "changes.diff" in hung) == ("", False)
    assert repo.landed() == ["calc.py"]
    assert stat.S_IMODE(logs.path.stat().st_mode) == 0o700


def test_an_agent_that_takes_too_long_leaves_what_it_did_so_far(
    planner: Planner, start: Start, logs: LogsFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clones = tmp_path / "trees"
    time_begins_when(lambda: any("a + b" in each.read_text() for each in clones.glob("*/clone/*/calc.py")), monkeypatch)
    planner.send("slow", intent=f"print('begun', flush=True); {FIX}; time.sleep(60)", allowed_files=["calc.py"])
    start(logs=logs, agent_timeout_s=0.5)

    assert "was stopped" in str(planner.outcome("slow").error_message)

    found = kept(logs, "slow")
    assert found["transcript"] == "begun\n"
    assert "return a + b" in found["changes.diff"]


def test_an_attempt_that_was_taken_back_is_kept_without_an_outcome(
    planner: Planner, start: Start, logs: LogsFolder
) -> None:
    spec = planner.send("lost", intent="print('begun', flush=True); write('calc.py', '7'); time.sleep(60)")
    start(logs=logs)
    wait_until(lambda: planner.redis.hget(spec["lease_key"], "controller"), what="claimed")
    planner.redis.delete(spec["lease_key"])

    place = logs.place(PLAN, "lost", 1)
    wait_until(place.is_dir, what="kept")

    assert not (place / "outcome.json").exists()
    assert planner.outcomes() == []


def test_agents_and_verifications_reach_no_logs(planner: Planner, start: Start, logs: LogsFolder) -> None:
    planner.send("first", mode="read_only", intent="print('told')")
    steal = f"open({str(logs.place(PLAN, 'first', 1) / 'transcript')!r})"
    start(logs=logs)
    planner.outcome("first")
    planner.send("steal", mode="read_only", intent=steal)
    planner.send("put", mode="read_only", intent=f"open({str(logs.path / 'mine')!r}, 'w')")

    for step in ("steal", "put"):
        assert "PermissionError" in str(planner.outcome(step).error_message)


def test_a_full_disk_fails_no_attempt(
    planner: Planner, start: Start, logs: LogsFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logs_folder, "mkdtemp", full)
    for step in ("one", "two"):
        planner.send(step, mode="read_only", intent="print('fine')")
    start(logs=logs)

    for step in ("one", "two"):
        assert (planner.outcome(step).success, planner.outcome(step).transcript) == (True, None)
    assert [record.message for record in caplog.records].count("attempt_not_kept") == 1
    assert list(logs.path.iterdir()) == []
