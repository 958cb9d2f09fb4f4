"""What is kept of attempts is bounded, and holds no secrets."""

from __future__ import annotations

import os
import time
from io import BytesIO
from pathlib import Path

import pytest

from schemas.outcome import Outcome
from worker.controller import attempt_log
from worker.controller.attempt_log import DENIED, DIFF, OUTCOME, SPEC, TRANSCRIPT, VERIFICATION, AttemptLog
from worker.controller.logs_folder import LogsFolder
from worker.sandbox.process import Printed

MOST = 64 * 1024
KEY = "ghp_" + "a1B2" * 9


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_log, "MAX_FILE_BYTES", MOST)


def printed(out: bytes, err: bytes = b"", code: int | None = 0) -> Printed:
    return Printed(BytesIO(out), BytesIO(err), code, 1.25)


def plan(number: int) -> str:
    return f"plan_00-{number:032x}"


def test_a_long_transcript_is_cut_in_its_middle_at_line_ends() -> None:
    log, lines = AttemptLog(), b"".join(b"line %d\n" % number for number in range(20_000))

    log.add_agent(printed(lines, b"x" * MOST))

    assert len(log.transcript) <= MOST
    begin, cut, end = log.transcript.partition(b"\n[... ")
    assert begin.startswith(b"line 0\nline 1\n")
    assert begin.endswith(b"\n")
    left, _, end = end.partition(b" bytes left out ...]\n")
    assert end.startswith(b"line ")
    out = end.partition(attempt_log.ERRORS)[0]
    assert out.endswith(b"line 19999\n")
    assert len(begin) + int(left) + len(out) == len(lines)
    assert cut


@pytest.mark.parametrize("size", [MOST // 2, MOST, 3 * MOST])
def test_a_single_line_of_any_length_is_bounded(size: int) -> None:
    log = AttemptLog()
    log.add_agent(printed(b"x" * size))
    assert min(size, MOST) - 200 <= len(log.transcript) <= MOST


def test_no_file_holds_a_secret_or_the_lease() -> None:
    log = AttemptLog(secrets=("the word",))
    log.add_agent(printed(f"{KEY}\nthe word\n".encode(), b"caf\xe9 password: hunter22\n"))
    log.add_tool(["pytest", "-k", "the word"], printed(f"TOKEN={KEY}\n".encode(), code=124))
    log.denied = (f"Bash: curl -H '{KEY}' \ud800",)
    log.diff = f"+key = '{KEY}'\n+\xe9\n".encode("latin-1")
    outcome = Outcome(step_id="a", success=True, lease="held", output={"said": "the word"})

    files = {TRANSCRIPT: log.transcript, **log.files(b'{"step_id": "a", "lease": "held"}', outcome)}

    assert set(files) == {TRANSCRIPT, DIFF, VERIFICATION, SPEC, OUTCOME, DENIED}
    for data in files.values():
        assert not any(secret in data for secret in (KEY.encode(), b"the word", b"hunter22", b"held"))
    assert files[DIFF].endswith(b"+\xe9\n")
    assert b"caf\xe9" in files[TRANSCRIPT]
    assert b"exit code 124, out of time after 1.2 s" in files[VERIFICATION]


def test_the_oldest_attempts_go_first_and_nothing_else_is_touched(tmp_path: Path) -> None:
    logs = LogsFolder(tmp_path / "logs", days=2, most_bytes=3500)
    logs.make()
    (logs.path / "mine").mkdir()
    (logs.path / "mine" / "letter").write_text("dear")
    for number in range(6):
        place = logs.place(plan(number), "a", 1)
        logs.keep(place, {TRANSCRIPT: b"x" * 1000})
        os.utime(place, (time.time() - 60 * (6 - number),) * 2)
    logs.tidy()

    assert [logs.attempts(plan(number), "a") for number in range(6)] == [[], [], [], [1], [1], [1]]
    assert sorted(each.name for each in logs.path.iterdir()) == ["mine", plan(3), plan(4), plan(5)]

    os.utime(logs.place(plan(5), "a", 1), (time.time() - 3 * 86_400,) * 2)
    logs.tidy()
    assert logs.attempts(plan(5), "a") == []
    assert (logs.path / "mine" / "letter").exists()


def test_an_attempt_that_is_done_again_replaces_what_was_kept(tmp_path: Path) -> None:
    logs = LogsFolder(tmp_path)
    place = logs.place(plan(1), "a", 1)
    for text in (b"first", b"second"):
        assert logs.keep(place, {TRANSCRIPT: text})

    assert logs.read(plan(1), "a", 1) == {TRANSCRIPT: b"second"}
    assert logs.read("../..", "a", 1) == logs.read(plan(1), "a", 2) == {}
    assert [each.name for each in tmp_path.iterdir()] == [plan(1)]


def test_a_folder_that_leads_elsewhere_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "other")

    with pytest.raises(PermissionError):
        LogsFolder(tmp_path / "logs").make()
