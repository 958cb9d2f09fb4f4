"""`planner gateway` as a process: how it starts, what it refuses, how it ends, and two of them behind a proxy."""

from __future__ import annotations

import json
import signal
import ssl
import threading
from contextlib import ExitStack
from pathlib import Path
from socket import create_server
from typing import Any

import httpx
import pytest
from redis import Redis

from schemas.api_key import ApiKey, Right
from tests.conftest import wait_until
from tests.support.certificate import write_certificate
from tests.support.gateway_process import serving, started
from tests.support.haproxy import haproxy
from tests.support.programs import needs
from worker.host.embedded_server import free_port
from worker.store import api_keys, clients
from worker.store.keys import GOALS

SECRET = "hunter2"


def refused(url: str, *words: str, **more: str) -> tuple[int, str]:
    process = started(url, *words, **more)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    assert SECRET not in said
    return process.returncode, said


@pytest.mark.long
@pytest.mark.outages
def test_what_cannot_work_is_refused_at_the_start_with_a_sentence(redis_url: str, tmp_path: Path) -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = refused(redis_url, "--port", port)
        assert (code, said.startswith(f"Cannot listen at 127.0.0.1, port {port}: ")) == (1, True)
    assert refused(redis_url, "--host", "0.0.0.0")[0] == 2
    assert "--behind-proxy" in refused(redis_url, "--host", "0.0.0.0")[1]
    assert "--certfile and --keyfile go together" in refused(redis_url, "--certfile", "a.pem")[1]
    missing = refused(redis_url, "--certfile", str(tmp_path / "a.pem"), "--keyfile", str(tmp_path / "b.pem"))
    assert missing[0] == 2
    assert "No such file" in missing[1]
    wrong = redis_url.replace("redis://", f"redis://nobody:{SECRET}@")
    assert refused(wrong, "--port", "0")[0] == 1


@pytest.mark.outages
def test_with_a_certificate_it_speaks_https_and_a_large_refusal_is_read(redis_url: str, tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    with serving(redis_url, "--certfile", str(cert), "--keyfile", str(key)) as (_, address):
        port = address.rpartition(":")[2]
        with httpx.Client(verify=ssl.create_default_context(cafile=str(cert)), timeout=30) as client:
            assert client.get(f"https://localhost:{port}/readyz").status_code == 200
            with clients.connect(redis_url) as redis:
                shown = api_keys.add(redis, ApiKey(key_id="large", rights=(Right.OPERATOR,)))
            headers = {"Authorization": f"Bearer {shown}", "Content-Type": "application/json"}
            large = client.post(f"https://localhost:{port}/v1/commands", content=b"0" * 4_000_000, headers=headers)
            assert large.status_code == 413


@pytest.mark.long
@needs("haproxy")
@pytest.mark.outages
def test_two_gateways_behind_haproxy_are_one_though_one_is_killed_and_one_is_restarted(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    token = api_keys.add(redis, ApiKey(key_id=api_keys.new_id(), rights=(Right.PRODUCER,)))
    ports, over = [free_port(), free_port()], threading.Event()
    sent: list[str] = []

    def produce(url: str) -> None:
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=10) as client:
            while not over.is_set():
                goal_id = f"g-{len(sent)}"
                body = {"goal": "Fix b", "allowed_files": ["b.py"], "goal_id": goal_id}
                while not _takes(client, body):
                    over.wait(0.05)
                sent.append(goal_id)

    with ExitStack() as stack:
        stack.enter_context(serving(redis_url, "--behind-proxy", port=ports[0]))
        with (
            serving(redis_url, "--behind-proxy", port=ports[1]) as (second, _),
            haproxy(tmp_path, *(f"127.0.0.1:{port}" for port in ports)) as url,
        ):
            thread = threading.Thread(target=produce, args=(url,))
            thread.start()
            try:
                for stop in (signal.SIGKILL, signal.SIGTERM):
                    wait_for_more(sent)
                    second.send_signal(stop)
                    assert second.wait(60) == (0 if stop == signal.SIGTERM else -stop)
                    wait_for_more(sent)
                    second, _ = stack.enter_context(serving(redis_url, "--behind-proxy", port=ports[1]))
            finally:
                over.set()
                thread.join(30)

    published: Any = redis.xrange(GOALS)
    assert {json.loads(fields[b"data"])["goal_id"] for _, fields in published} == set(sent)


def _takes(client: httpx.Client, body: dict[str, Any]) -> bool:
    """Whether a goal is taken; a connection that ends with the gateway behind it is none, as for every client."""
    try:
        return client.post("/v1/goals", json=body).status_code == 202
    except httpx.TransportError:
        return False


def wait_for_more(sent: list[str]) -> None:
    before = len(sent)
    wait_until(lambda: len(sent) > before + 20, what="goals are taken")
