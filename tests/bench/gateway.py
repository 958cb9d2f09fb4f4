"""A gateway process for the benchmark, with a key."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from redis import Redis

from schemas.api_key import ApiKey, Right
from tests.bench.fleet import wait_for
from worker.process.launch import gateway_command
from worker.store import api_keys


class RunningGateway(NamedTuple):
    """Where it is, and what to show there."""

    port: int
    token: str
    pid: int


@contextmanager
def gateway(client: Redis, url: str) -> Iterator[RunningGateway]:
    """Run a gateway of the server at `url`, which `client` speaks to."""
    token = api_keys.add(client, ApiKey(key_id=secrets.token_hex(8), rights=(Right.ADMIN,)))
    environment = {**os.environ, "PLANNER_REDIS_URL": url, "PLANNER_LOG_LEVEL": "ERROR"}
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        number, port = listener.fileno(), listener.getsockname()[1]
        process = subprocess.Popen(gateway_command(number), env=environment, pass_fds=(number,))
    try:
        wait_for(lambda: process.poll() is not None or _answers(port))
        if process.poll() is not None:
            raise RuntimeError("the gateway has ended")
        yield RunningGateway(port, token, process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
