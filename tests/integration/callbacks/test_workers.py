"""Callbacks of real worker processes, killed and started again, with servers that come back from their files."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.conftest import RunningWorker, running_worker, wait_until
from tests.integration.callbacks.conftest import ALLOWED, run, told
from tests.support import faults, launch
from tests.support.engine import a_goal
from tests.support.messages import publish, work
from tests.support.programs import needs
from tests.support.receiver import Receiver
from tests.support.servers import Server
from tests.support.stored import P0
from worker.callbacks.message import sign, write_secret

PAGE = Path(__file__).parents[3] / "docs" / "callbacks.md"


def environment(keys: Path) -> dict[str, str]:
    return {"PLANNER_SECRET_FILE": str(keys), "PLANNER_CALLBACK_ALLOW": ALLOWED}


@pytest.mark.parametrize("pool", ["solo", pytest.param("prefork", marks=pytest.mark.outages)])
def test_a_worker_tells_an_endpoint_within_a_second(
    redis_url: str,
    redis: Redis,
    keys: Path,
    receiver: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pool: str,
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    for name, value in environment(keys).items():
        monkeypatch.setenv(name, value)

    with running_worker(redis_url, tmp_path / "worker.log", pool) as worker:
        secret = told(run("add", f"{receiver.url}/hook?token=t0ken", "--json"))["secret"]
        publish(redis, {**a_goal(2), "goal_id": "ci-1"})
        wait_until(lambda: (work(redis), receiver.calls)[1], what="told")
        wait_until(lambda: redis.zcard(P0.callbacks) == 0, what="noted")

    assert receiver.types() == ["plan.completed"]
    log = worker.log.read_text()
    assert secret not in log
    assert "t0ken" not in log


@pytest.mark.outages
def test_a_worker_that_is_killed_while_the_receiver_answers_loses_nothing(
    redis_url: str, redis: Redis, keys: Path, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    for name, value in environment(keys).items():
        monkeypatch.setenv(name, value)
    endpoint = told(run("add", receiver.url, "--json"))["endpoint_id"]
    command = launch.command({**faults.HASTE, "worker.LEASE_S": 2.0})
    log = tmp_path / "worker.log"

    def started() -> subprocess.Popen[bytes]:
        process = faults.spawn(command, redis_url, log, **environment(keys))
        known = RunningWorker(redis_url, redis, process, log)
        wait_until(lambda: faults.consumes(known), 60, "worker consumes")
        return process

    first = started()
    receiver.before = lambda: faults.kill(first)
    publish(redis, a_goal(1))
    wait_until(lambda: (work(redis), first.poll())[1] is not None, what="the worker is killed")
    second = started()
    try:
        wait_until(lambda: len(receiver.calls) == 2, what="told again")
        wait_until(lambda: told(run("show", endpoint, "--json"))["deliveries"][0]["state"] == "delivered")
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    finally:
        faults.kill(second)

    assert len({call.headers["webhook-id"] for call in receiver.calls}) == 1


@pytest.mark.long
@pytest.mark.outages
def test_what_was_to_be_told_outlives_a_kill_of_the_server_and_of_all_workers(
    keys: Path, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(keys).items():
        monkeypatch.setenv(name, value)
    with Server(tmp_path / "server") as server:
        monkeypatch.setenv("PLANNER_REDIS_URL", server.url)
        log = tmp_path / "worker.log"
        deaf = launch.command(faults.HASTE, queues="planner.decompose,planner.outcomes,planner.upkeep,planner.commands")
        first = faults.spawn(deaf, server.url, log, **environment(keys))
        with server.client() as redis:
            wait_until(lambda: faults.consumes(RunningWorker(server.url, redis, first, log)), 60, "consumes")
            told(run("add", receiver.url, "--json"))
            publish(redis, a_goal(1))
            wait_until(lambda: (work(redis), redis.xlen(P0.outbox))[1] == 1, what="in the outbox")
            for partition_events in redis.scan_iter("planner:*:events"):
                redis.xtrim(partition_events, maxlen=0)
        faults.kill(first)
        with server.refusing():
            pass
        second = faults.spawn(launch.command(faults.HASTE), server.url, log, **environment(keys))
        try:
            wait_until(lambda: receiver.calls, 60, "told")
        finally:
            faults.kill(second)

    assert receiver.types() == ["plan.completed"]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def test_the_python_of_the_page_knows_a_message_of_ours_and_no_other() -> None:
    names: dict[str, Any] = {}
    exec(block("python"), names)
    secret, now = write_secret(b"s" * 32), int(time.time())
    headers = sign((write_secret(b"o" * 32), secret), "msg_1", now, b"{}")

    names["verify"](secret, headers, b"{}")
    late = sign((secret,), "msg_1", now - 400, b"{}")
    wrong = ((secret, headers, b"{ }"), (write_secret(b"x" * 32), headers, b"{}"), (secret, late, b"{}"))
    for each in wrong:
        with pytest.raises(ValueError, match=r"signed|old"):
            names["verify"](*each)


@needs("node")
def test_the_javascript_of_the_page_knows_a_message_of_ours_and_no_other(tmp_path: Path) -> None:
    secret, now = write_secret(b"s" * 32), int(time.time())
    headers = sign((write_secret(b"o" * 32), secret), "msg_1", now, b"{}")
    script = tmp_path / "verify.js"
    asked = f"{block('js')}\nverify({codec.dumps(secret).decode()}, {codec.dumps(headers).decode()}, process.argv[2])"
    script.write_text(asked)

    def verified(body: str) -> int:
        return subprocess.run(["node", script, body], capture_output=True).returncode

    assert (verified("{}"), verified("{ }")) == (0, 1)
