"""Servers that answer and cannot be used: one sentence and an exit code. One that is away is waited for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schemas import codec
from tests.conftest import wait_until
from tests.support.old_redis import old_redis
from tests.support.servers import Server
from worker.cli.commands.app import app
from worker.host.embedded_server import free_port

pytestmark = pytest.mark.outages

BIN = Path(sys.executable).parent
SENTENCES = {
    "old": "This server is redis 6.2.14; the planner runs on Redis from 7.0 or Valkey from 7.2.",
    "evicting": "Redis may evict keys (maxmemory-policy is allkeys-lru)",
    "forgetting": "Redis keeps no append-only file",
    "wrong password": "refuses the user or the password in PLANNER_REDIS_URL: ",
    "no password": "wants a user or a password, and PLANNER_REDIS_URL has none.",
    "no right": "refuses this user a needed command or key (docs/deployment.md, Roles): ",
}
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")
USELESS = ("old", "wrong password", "no password", "no right")  # to everybody; what is unsafe only a worker minds
WORKERS = {
    "planner worker": (BIN / "planner", "worker", "--pool", "solo"),
    "celery": (BIN / "celery", "-A", "worker", "worker", "--pool", "solo"),
}
COMMANDS = {
    "plans": ("plans",),
    "show": ("show", "plan_00"),
    "submit": ("submit", "--goal", "Fix it", "--file", "a.py"),
    "dead list": ("dead", "list"),
    "dead drop": ("dead", "drop", "--all", "--yes"),
    "doctor": ("doctor",),
    "halt": ("halt", "--all", "--yes"),
    "export": ("export", "plan_00"),
    "explain": ("explain", "plan_00"),
}


@dataclass
class Ended:
    """A process that has ended by itself."""

    code: int
    out: str
    err: str

    @property
    def logged(self) -> list[dict[str, str]]:
        """The JSON lines that it logged as critical or as errors."""
        records = [codec.loads(line) for line in self.err.splitlines() if line.startswith("{")]
        return [record for record in records if record["level"] in ("CRITICAL", "ERROR")]


def run(url: str, *command: object, **environment: str) -> Ended:
    variables = {**os.environ, "PLANNER_REDIS_URL": url, "COLUMNS": "140", **environment}
    done = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, timeout=60)
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Say where a server of each kind is."""
    path = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        old = stack.enter_context(old_redis())
        evicting = stack.enter_context(Server(path / "evicting", "--maxmemory-policy", "allkeys-lru"))
        forgetting = stack.enter_context(Server(path / "forgetting", "--appendonly", "no"))
        guarded = stack.enter_context(Server(path / "guarded"))
        with guarded.client() as client:
            client.acl_setuser("known", enabled=True, passwords=["+secret"], commands=["+ping", "+hello", "+client"])
            client.acl_setuser("default", enabled=True, passwords=["+secret"], categories=["+@all"], keys=["*"])
        place = f"127.0.0.1:{guarded.port}/0"
        yield {
            "old": old,
            "evicting": evicting.url,
            "forgetting": forgetting.url,
            "wrong password": f"redis://:wrong@{place}",
            "no password": f"redis://{place}",
            "no right": f"redis://known:secret@{place}",
        }


@pytest.mark.parametrize(
    ("kind", "worker"), [*((kind, "planner worker") for kind in SENTENCES), ("old", "celery"), ("evicting", "celery")]
)
def test_a_worker_ends_with_one_sentence(urls: dict[str, str], kind: str, worker: str) -> None:
    ended = run(urls[kind], *WORKERS[worker])

    assert ended.code == 1
    assert [(record["event"], SENTENCES[kind] in record["reason"]) for record in ended.logged] == [
        ("cannot start", True)
    ]
    assert "Traceback" not in ended.err + ended.out
    assert "secret" not in ended.err


@pytest.mark.parametrize("kind", ["old", "evicting", "wrong password"])
def test_planner_up_says_it_before_it_starts_anything(urls: dict[str, str], kind: str) -> None:
    ended = run(urls[kind], BIN / "planner", "up")

    assert (ended.code, ended.out) == (1, "")
    assert SENTENCES[kind] in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", USELESS)
def test_every_command_ends_with_one_sentence(
    urls: dict[str, str], kind: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", urls[kind])

    ended = CliRunner().invoke(app, COMMANDS[command])

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert isinstance(ended.exception, SystemExit)
    assert SENTENCES[kind] in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_scripts_tell_refusals_apart(urls: dict[str, str]) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    places = {**{kind: urls[kind] for kind in ("old", "wrong password", "no right")}, "away": away}

    codes = {kind: json.loads(run(url, BIN / "planner", "plans", "--json").out)["code"] for kind, url in places.items()}

    assert codes == {
        "old": "old_redis",
        "wrong password": "wrong_password",
        "no right": "no_permission",
        "away": "no_redis",
    }


@pytest.mark.parametrize("kind", USELESS)
def test_a_controller_ends_with_one_sentence(urls: dict[str, str], kind: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run([*GIT, "-C", tmp_path, "commit", "--quiet", "--allow-empty", "--message", "first"], check=True)

    ended = run(urls[kind], BIN / "planner", "controller", "--workdir", tmp_path)

    assert ended.code == 1
    assert [(record["event"], SENTENCES[kind] in record["error"]) for record in ended.logged] == [
        ("controller_refused", True)
    ]
    assert "Traceback" not in ended.err


def test_a_broker_with_another_password_is_refused_and_one_that_is_away_is_not(
    urls: dict[str, str], tmp_path: Path
) -> None:
    with Server(tmp_path / "store") as store:
        ended = run(store.url, *WORKERS["planner worker"], PLANNER_BROKER_URL=urls["wrong password"])

    assert ended.code == 1
    assert "refuses the user or the password in PLANNER_BROKER_URL" in ended.logged[0]["reason"]


def test_wrong_settings_are_said_by_celery_too() -> None:
    ended = run("redis://localhost", *WORKERS["celery"], PLANNER_PARTITIONS="many")

    assert ended.code != 0
    assert "PLANNER_PARTITIONS: Input should be a valid integer" in ended.err
    assert "Traceback" not in ended.err


def test_a_worker_waits_for_a_server_that_is_away_and_its_health_says_what_for(tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    state = {"PLANNER_STATE_DIR": str(tmp_path / "state")}
    variables = {**os.environ, "PLANNER_REDIS_URL": server.url, **state}
    log = tmp_path / "worker.log"
    with log.open("wb") as file:
        worker = subprocess.Popen(list(map(str, WORKERS["planner worker"])), env=variables, stdout=file, stderr=file)
    try:
        wait_until(lambda: b'"store away"' in log.read_bytes(), 60, "it waits")
        health = [BIN / "planner", "health", "--ready"]
        wait_until(
            lambda: "the store does not answer" in run(server.url, *health, **state).out, what="its health says so"
        )
        assert run(server.url, *health, **state).code == 1

        server.start()
        with server.client() as client:
            wait_until(lambda: client.exists("planner:goals"), what="it works")
        assert worker.poll() is None
        with server.client() as client:  # a password that is changed under it
            client.config_set("requirepass", "changed")
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wait_until(
            lambda: "wants a user or a password" in run(server.url, BIN / "planner", "health", "--ready", **state).out,
            what="its health says why",
        )
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait(60)
        server.kill()
