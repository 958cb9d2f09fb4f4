"""A real worker reports a failed decision to a Sentry of ours; what the evidence said stays at home."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from redis import Redis

from schemas import codec
from schemas.api_key import ApiKey, Right
from tests.conftest import wait_until
from worker.host.embedded_server import free_port
from worker.store import api_keys
from worker.store.keys import GOALS, Partition

SECRET = "hunter2-of-the-evidence"
P = Partition(0)
ROOT = Path(__file__).parents[2]

# Python runs this in every process that finds it. The decision fails in the ways in which text could get out.
SHIM = """
import logging, sys
if any("celery" in word for word in sys.argv + sys.orig_argv):
    from pydantic import TypeAdapter
    from tasks.handlers import outcomes

    def fail(view, reports):
        local = reports[0].outcome.failure_evidence.stack_trace_head
        logging.getLogger("planner.shim").error("log with %s", local, extra={"evidence": local, "step_id": "s"})
        try:
            TypeAdapter(int).validate_python(local)
        except ValueError as error:
            error.add_note(local)
            raise ValueError(f"cannot read {local}") from error

    outcomes.apply = fail
"""
NO_OWNERS = """
    from worker.store import owners
    owners.LEASE_MS = 1
"""


# A door of a gateway fails while it has a goal in hand, and says so with the goal's words.
DOOR_SHIM = """
import sys
if "gateway" in sys.orig_argv:
    from worker.store import publishing

    def fail(client, data, *_, **__):
        local = data.decode()
        raise ValueError(f"cannot publish {local}")

    publishing.publish_goal = fail
"""


class Sentry(ThreadingHTTPServer):
    """Takes envelopes as Sentry does; keeps the events in them and every byte that came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.events: list[dict[str, Any]] = []
        self.received = b""

    @property
    def dsn(self) -> str:
        return f"http://key@127.0.0.1:{self.server_port}/1"

    def take(self, envelope: bytes) -> None:
        self.received += envelope
        lines = iter(envelope.splitlines()[1:])  # the envelope's header, then header and body of each item
        for header in lines:
            body = next(lines)
            if codec.loads(header)["type"] == "event":
                self.events.append(codec.loads(body))

    def event_of(self, logger: str) -> dict[str, Any]:
        """The first event that this logger caused; empty while there is none."""
        return next((event for event in self.events if event.get("logger") == logger), {})


class _Door(BaseHTTPRequestHandler):
    server: Sentry

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def sentry() -> Iterator[Sentry]:
    with Sentry() as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


@contextmanager
def worker(pool: str, url: str, dsn: str, shim: Path, more: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker in which the shim is at work; it ends with the block."""
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(SHIM + more)
    path = os.pathsep.join(map(str, (shim, ROOT)))
    settings = {"PLANNER_REDIS_URL": url, "SENTRY_DSN": dsn, "PLANNER_MAX_FAILURES": "1", "PYTHONPATH": path}
    flags = ["--pool", pool, "--concurrency", "1", "--without-gossip", "--without-mingle"]
    with (shim / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "worker", "worker", *flags],
            env=os.environ | settings, cwd=shim.parent, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def failing_gateway(redis_url: str, dsn: str, shim: Path) -> Iterator[str]:
    """Run a gateway in which the shim is at work; yields its URL."""
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(DOOR_SHIM)
    path = os.pathsep.join(map(str, (shim, ROOT)))
    settings = {"PLANNER_REDIS_URL": redis_url, "SENTRY_DSN": dsn, "PYTHONPATH": path}
    port = free_port()
    words = ["-c", "from worker.start import planner; planner()", "gateway", "--port", str(port)]
    with (shim / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], env=os.environ | settings, stdout=log, stderr=log)
    try:
        wait_until(lambda: b"gateway listens" in (shim / "log").read_bytes(), 60, "the gateway listens")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def an_attempt(redis: Redis) -> dict[str, Any]:
    """Submit a goal of one step and wait for its spec."""
    step = {"step_id": "s", "title": "s", "intent": "s", "allowed_files": ["a"]}
    redis.xadd(GOALS, {"data": codec.dumps({"goal": "Write a", "allowed_files": ["a"], "steps": [step]})})
    queue: Any = wait_until(lambda: redis.xrange(P.steps("default")), 90, "a spec comes out")
    spec: dict[str, Any] = codec.loads(queue[0][1][b"data"])
    return spec


def a_governed_halt(redis: Redis) -> str:
    """Have a plan halted, by the rule for operators; returns its id once it is."""
    spec = an_attempt(redis)
    command = {"command_id": "c", "command": "halt", "scope": "plan", "actor": "ada", "reason": "enough"}
    redis.xadd(P.commands, {"data": codec.dumps({**command, "plan_id": spec["plan_id"]})})
    wait_until(lambda: redis.hget(P.plan(spec["plan_id"]).plan, "state") == b"HALTED", 60, "the halt")
    wait_until(lambda: not redis.xlen(P.steps("default")), 60, "its spec is taken back")
    return str(spec["plan_id"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("pool", "by"),
    [
        ("prefork", "poller"),
        pytest.param("solo", "task", marks=pytest.mark.outages),
        pytest.param("prefork", "task", marks=pytest.mark.outages),
    ],
)
def test_a_failed_decision_is_reported_by_the_process_it_failed_in_without_its_evidence(
    pool: str, by: str, redis_url: str, redis: Redis, sentry: Sentry, tmp_path: Path
) -> None:
    with worker(pool, redis_url, sentry.dsn, tmp_path / "shim", NO_OWNERS if by == "task" else "") as process:
        halted = a_governed_halt(redis)
        spec = an_attempt(redis)
        outcome = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")} | {
            "success": False, "failure_evidence": {"stack_trace_head": SECRET}, "error_message": SECRET,
        }  # fmt: skip
        redis.xadd(P.outcomes, {"data": codec.dumps(outcome)})
        event = wait_until(lambda: sentry.event_of("planner.engine"), 60, "the event arrives")
        logged = wait_until(lambda: sentry.event_of("planner.shim"), 60, "the logged error arrives")

    assert event["tags"]["plan_id"] == event["extra"]["plan_id"] == spec["plan_id"]
    assert event["tags"]["kind"] == "task"
    assert not [event for event in sentry.events if halted in str(event)]  # a plan that a rule ends is no defect
    assert event["transaction"] == "planner.outcomes"
    if by == "task":  # else it is the poller's, unless the machine is so busy that the pool was asked
        assert "celery_task_id" in event["tags"]
        assert (event["extra"]["pid"] == process.pid) == (pool == "solo")
    assert [error["type"] for error in event["exception"]["values"]] == ["ValidationError", "ValueError"]
    assert event["exception"]["values"][1]["stacktrace"]["frames"][-1]["function"] == "fail"
    assert logged["logentry"] == {"message": "log with %s"}
    assert logged["tags"]["step_id"] == "s"
    assert SECRET.encode() not in sentry.received


@pytest.mark.outages
def test_a_failed_request_is_reported_without_its_body_its_query_or_its_key(
    redis_url: str, redis: Redis, sentry: Sentry, tmp_path: Path
) -> None:
    key = api_keys.add(redis, ApiKey(key_id="reported", rights=(Right.PRODUCER,)))
    headers = {"Authorization": f"Bearer {key}", "X-Request-Id": "ours-1", "X-Hub-Signature-256": SECRET}
    with failing_gateway(redis_url, sentry.dsn, tmp_path / "shim") as url:
        goal = {"goal": SECRET, "allowed_files": ["a"]}
        answer = httpx.post(f"{url}/v1/goals?query={SECRET}", json=goal, headers=headers, timeout=60)
        wait_until(lambda: sentry.events, 60, "the event arrives")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    (event,) = sentry.events
    assert [error["type"] for error in event["exception"]["values"]] == ["ValueError"]
    assert event["exception"]["values"][0]["stacktrace"]["frames"][-1]["function"] == "fail"
    assert event["extra"]["request_id"] == "ours-1"
    for told in (sentry.received, (tmp_path / "shim" / "log").read_bytes(), answer.content):
        assert SECRET.encode() not in told
        assert key.encode() not in told
        assert key.rpartition("_")[2].encode() not in told
