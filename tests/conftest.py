"""Shared fixtures: one real server for the session, emptied for every test that asks for it.

By default it is the embedded Valkey; `PLANNER_TEST_REDIS_SERVER=/usr/bin/redis-server` runs the same tests on that.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from worker import embedded

T = TypeVar("T")


def wait_until(probe: Callable[[], T], timeout: float = 15.0, what: str = "") -> T:
    """Return the first true answer of `probe`; fail with `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        if answer := probe():
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout} s: {what or probe}")
        time.sleep(0.01)


def free_port() -> int:
    """Find a TCP port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        with Redis.from_url(url) as client:
            return bool(client.ping())
    except RedisConnectionError:
        return False


@contextmanager
def system_server(binary: str, directory: Path) -> Iterator[str]:
    """Run an installed redis-server or valkey-server with the configuration of the embedded one."""
    port = free_port()
    options = [word for key, value in embedded.CONFIG.items() for word in (f"--{key}", value)]
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), *options]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"redis://127.0.0.1:{port}/0"
        wait_until(lambda: _answers(url), what="server answers")
        yield url
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server of this test session."""
    directory = tmp_path_factory.mktemp("server")
    binary = os.environ.get("PLANNER_TEST_REDIS_SERVER")
    server = system_server(binary, directory) if binary else embedded.valkey(directory)
    with server as url:
        yield url
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def redis_url(server_url: str) -> str:
    """The URL of the session's server, emptied for this test."""
    with Redis.from_url(server_url) as client:
        client.flushall()
        client.function_flush()
    return server_url


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """A client of the emptied server."""
    with Redis.from_url(redis_url) as client:
        yield client
