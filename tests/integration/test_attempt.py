"""`planner attempt`: what a controller has kept of an attempt, here and from elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.api_key import Right
from tests.support.engine import drain, plan
from tests.support.gateway import running_gateway
from tests.support.messages import answer, report, specs
from worker.cli.commands.app import app
from worker.cli.console import MISSING
from worker.controller.attempt_log import DIFF, OUTCOME, TRANSCRIPT, VERIFICATION, digest
from worker.controller.logs_folder import LogsFolder
from worker.process.container import Container
from worker.store import sent_attachments

GOAL = {
    "goal": "Fix it",
    "allowed_files": ["a.py", "b.py"],
    "steps": [
        {"step_id": name, "title": "t", "intent": "i", "allowed_files": [f"{name}.py"], "verify": "pytest -q"}
        for name in ("a", "b")
    ],
}
SAID = b"\x1b[2Jthinking\n"
FILES = {TRANSCRIPT: SAID, DIFF: b"+\tnew\n" * 50, VERIFICATION: b"$ pytest\n1 failed\n", OUTCOME: b'{"success":false}'}


@pytest.fixture
def logs(tmp_path: Path) -> LogsFolder:
    folder = LogsFolder(tmp_path / "logs")
    folder.make()
    return folder


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, redis_url: str, tmp_path: Path) -> Callable[..., Result]:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "400")
    return lambda *words: CliRunner().invoke(app, ["attempt", *map(str, words)])


def fail(here: Container, redis: Redis, logs: LogsFolder, host: str, files: dict[str, bytes]) -> str:
    """Have the first attempt fail on `host`, and keep its files in `logs`."""
    (plan_id,) = plan(here, redis, GOAL)
    spec = next(spec for spec in specs(redis) if spec["step_id"] == "a")
    place = logs.place(plan_id, "a", 1)
    logs.keep(place, files)
    said = {"path": str(place / TRANSCRIPT), "digest": digest(SAID), "host": host}
    evidence = {"category": "TEST_REGRESSION", "stack_trace_head": "assert 1 == 2"}
    report(redis, answer(spec, success=False, failure_evidence=evidence, transcript=said))
    drain(here)
    return plan_id


def test_an_attempt_is_shown_on_its_host(
    here: Container, redis: Redis, planner: Callable[..., Result], logs: LogsFolder
) -> None:
    plan_id = fail(here, redis, logs, socket.gethostname(), FILES)

    text = planner(plan_id, "a")
    shown: dict[str, Any] = codec.loads(planner(plan_id, "a", 1, "--json").stdout)

    assert text.exit_code == 0
    for told in (
        "RETRIED",
        "TEST_REGRESSION: assert 1 == 2",
        str(logs.path),
        "--diff prints 10 lines more",
        "1 failed",
    ):
        assert told in text.stdout
    assert "\x1b[2J" not in text.stdout
    assert planner(plan_id, "a", "--diff").stdout_bytes == FILES[DIFF]
    assert planner(plan_id, "a", "--verification").stdout == "$ pytest\n1 failed\n"
    assert planner(plan_id, "a", "--transcript").stdout_bytes == SAID  # for a program; a terminal is spared
    assert (shown["attempt"], shown["result"], shown["is_unaltered"]) == (1, "RETRIED", True)
    assert shown["files"][TRANSCRIPT] == SAID.decode()
    assert f"kept at {socket.gethostname()}:{logs.path}" in CliRunner().invoke(app, ["explain", plan_id, "a"]).stdout

    (logs.place(plan_id, "a", 1) / OUTCOME).write_bytes(b'{"output": "[secret]')
    (logs.place(plan_id, "a", 1) / TRANSCRIPT).write_bytes(b"nothing")
    assert "altered" in planner(plan_id, "a").stdout


def test_an_attempt_of_another_host_is_said_to_be_there(
    here: Container, redis: Redis, planner: Callable[..., Result], logs: LogsFolder, tmp_path: Path
) -> None:
    plan_id = fail(here, redis, logs, "build-7", FILES)

    assert f"It is kept on build-7, in {logs.path}/{plan_id}/a/1" in planner(plan_id, "a").stdout
    assert planner(plan_id, "a", "--json").exit_code == 0
    assert planner(plan_id, "a", "--diff").exit_code == 3
    assert "1 failed" in planner(plan_id, "a", "--logs", logs.path).stdout  # as where that disk is mounted

    for words in (("c",), ("b",), ("a", 7), ("../..",)):
        assert planner(plan_id, *words, "--logs", logs.path).exit_code == 3


def test_no_server_is_needed_where_the_attempt_lies(
    here: Container,
    redis: Redis,
    planner: Callable[..., Result],
    logs: LogsFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan_id = fail(here, redis, logs, socket.gethostname(), FILES)
    monkeypatch.setenv("PLANNER_REDIS_URL", "redis://127.0.0.1:1/0")

    assert "1 failed" in planner(plan_id, "a", "--logs", logs.path).stdout
    assert planner(plan_id, "a").exit_code == 1
    assert planner(plan_id[:9], "a", "--logs", logs.path).exit_code == 1


def test_a_place_that_an_outcome_lies_about_is_not_read(
    here: Container, redis: Redis, planner: Callable[..., Result], tmp_path: Path
) -> None:
    (plan_id,) = plan(here, redis, GOAL)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / TRANSCRIPT).write_text("private")
    told = {"a": str(tmp_path / "mine" / TRANSCRIPT), "b": {"not": "a path"}}
    for spec in specs(redis):
        said = {"path": told[spec["step_id"]], "host": socket.gethostname()}
        report(redis, answer(spec, success=False, transcript=said))
    drain(here)

    assert "private" not in planner(plan_id, "a").stdout
    assert planner(plan_id, "a", "--transcript").exit_code == 3
    assert "reported no transcript" in planner(plan_id, "b").stdout


def test_what_was_sent_of_an_agents_output_is_shown_elsewhere(
    here: Container, redis: Redis, redis_url: str, planner: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan_id,) = plan(here, redis, GOAL)
    spec = next(spec for spec in specs(redis) if spec["step_id"] == "a")
    sent_attachments.send(redis, 1, plan_id, sent_attachments.message(plan_id, "a", 1, SAID, "transcript"))
    said = {"path": f"/var/logs/{plan_id}/a/1/transcript", "digest": digest(SAID), "host": "build-7"}
    evidence = {"category": "TEST_REGRESSION", "stack_trace_head": "assert 1 == 2"}
    told = {"failure_evidence": evidence, "transcript": {**said, "sent": digest(SAID)}}
    report(redis, answer(spec, success=False, **told))
    drain(here)
    here.context(0).engine.sweep("here")

    def check() -> None:
        text = planner(plan_id, "a")
        assert "It is kept on build-7" in text.stdout
        assert "Its controller sent this output of the agent" in text.stdout
        assert "thinking" in text.stdout
        assert "\x1b[2J" not in text.stdout
        assert planner(plan_id, "a", "--transcript").stdout_bytes == SAID
        assert planner(plan_id, "a", "--diff").exit_code == MISSING
        assert codec.loads(planner(plan_id, "a", "--json").stdout)["is_sent"]
        shown = CliRunner().invoke(app, ["show", plan_id, "--transcript", "a"])
        assert (shown.exit_code, shown.stdout_bytes) == (0, SAID)
        for step, why in {"b": "No transcript of b is kept", "z": "has no step 'z'"}.items():
            refused = CliRunner().invoke(app, ["show", plan_id, "--transcript", step])
            assert refused.exit_code == MISSING
            assert why in refused.stderr

    check()
    with running_gateway(redis_url) as gateway:
        monkeypatch.delenv("PLANNER_REDIS_URL")
        monkeypatch.setenv("PLANNER_URL", gateway.url)
        monkeypatch.setenv("PLANNER_API_KEY", gateway.key(Right.VIEWER))
        check()
