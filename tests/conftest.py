"""Shared fixtures: one real server for the session, emptied for every test that asks for it.

By default it is the embedded Valkey; `PLANNER_TEST_REDIS_SERVER=/usr/bin/redis-server` runs the same tests on that, and
`PLANNER_TEST_REDIS_SERVER=cluster` on three servers of a cluster.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from schemas import codec
from worker.host import embedded_server
from worker.process.launch import worker_command
from worker.settings import cluster, credentials
from worker.store import clients
from worker.telemetry.logs import JsonLines

pytest_plugins = ("tests.support.left_behind", "tests.support.programs")

T = TypeVar("T")
PATIENCE_S = 30.0  # with a server whose disk is busy
CLOCK_HZ = 100  # an idle server rounds each wait up to a period of its clock, which is by itself a tenth of a second


# Where the environment forbids to keep bytecode, each process of a test would compile all that it imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A script ignores SIGINT for what it starts in the background, nohup SIGHUP, and a child of ours would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine takes its time. `--hypothesis-profile many` is for a change of what a property is about.
settings.register_profile("any machine", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("many", settings.get_profile("any machine"), max_examples=500)
settings.load_profile("any machine")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without the garbage collector: nearly all that is made then lives as long as the session."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the long tests run longer."""
    group = parser.getgroup("planner")
    group.addoption(
        "--chaos-minutes",
        type=float,
        default=3,
        help="how long each file of `-m chaos` takes, that of overlapping plans a third of it; 100 plans a minute",
    )
    group.addoption(
        "--attack-seconds", type=float, default=10, help="how long others attack two gateways behind a proxy"
    )
    group.addoption("--chaos-seed", type=int, help="play the faults of this seed again; else the time is the seed")
    group.addoption("--fuzz-entries", type=int, default=2000, help="how many entries the fuzz sends")
    group.addoption("--fuzz-seed", type=int, default=1, help="which entries the fuzz sends")


def wait_until(probe: Callable[[], T], timeout: float = 60.0, what: str = "") -> T:
    """Return the first true answer of `probe`; fail with `what` after `timeout` seconds.

    A machine that runs many tests at once, on a slow disk, takes a quarter of a minute for what takes a second.
    """
    deadline = time.monotonic() + timeout
    while True:
        if answer := probe():
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout} s: {what or probe}")
        time.sleep(0.01)


def connect(url: str) -> Redis:
    """Make a client that bears with a server whose disk is busy; use it in a `with`."""
    if cluster.is_cluster(url):
        return clients.connect(url, patience_s=PATIENCE_S)
    return Redis.from_url(url, socket_timeout=PATIENCE_S)


def _answers(url: str) -> bool:
    try:
        with connect(url) as client:
            return bool(client.ping())
    except RedisConnectionError:
        return False


@contextmanager
def system_server(binary: str, directory: Path) -> Iterator[str]:
    """Run an installed redis-server or valkey-server with the configuration of the embedded one."""
    port = embedded_server.free_port()
    options = [word for key, value in embedded_server.CONFIG.items() for word in (f"--{key}", value)]
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), *options]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"redis://127.0.0.1:{port}/0"
        wait_until(lambda: _answers(url), what="server answers")
        yield url
    finally:
        process.kill()  # its data are deleted, so that it has nothing to write
        process.wait(60)


@pytest.fixture(scope="session", autouse=True)
def _state_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what the workers of these tests know apart from that of other planners on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANNER_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        for name in list(os.environ):  # of a CI job that runs these tests: no goal of theirs is about that
            if name.startswith(("GITHUB_", "CI_")):
                patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_of_this_session() -> Iterator[None]:
    """Build the commands once, as a program does: for each call of a test runner that would be most of the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True)
def _secrets_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a command that ran in this process took out of its environment."""
    monkeypatch.setattr(credentials, "_kept", {})
    monkeypatch.setattr(credentials, "_files_read", set())


@pytest.fixture(autouse=True)
def _logs_of_this_test() -> Iterator[None]:
    """Take back how a command that ran in this process set up its logs: its output has ended with it."""
    yield
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each.formatter, JsonLines)]:
        root.removeHandler(handler)
        root.setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server of this test session."""
    directory = tmp_path_factory.mktemp("server")
    binary = os.environ.get("PLANNER_TEST_REDIS_SERVER")
    if binary == "cluster":
        yield from _cluster(directory)
        return
    server = system_server(binary, directory) if binary else embedded_server.valkey(directory)
    with server as url:
        with connect(url) as client:
            client.config_set("hz", CLOCK_HZ)
            client.config_set("appendfsync", "no")  # no machine fails here, and a slow disk would hold up every command
        yield url
    shutil.rmtree(directory, ignore_errors=True)


def _cluster(directory: Path) -> Iterator[str]:
    """Start a cluster, and a server for the broker of workers."""
    from tests.support.cluster import Cluster

    with Cluster(directory, replicas=False) as servers, embedded_server.valkey(directory / "broker") as broker:
        os.environ["PLANNER_BROKER_URL"] = broker
        for node in servers.nodes:
            node.ask("CONFIG", "SET", "hz", CLOCK_HZ)
        yield servers.url


@pytest.fixture
def redis_url(server_url: str) -> str:
    """The URL of the session's server, emptied for this test."""
    assert server_url not in _WITH_WORKER, "the module's worker runs on this server"
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
    return server_url


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """A client of the emptied server."""
    with connect(redis_url) as client:
        yield client


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A worker process as tests see it; `redis` is a client of its server."""

    url: str
    redis: Redis
    process: subprocess.Popen[bytes]
    log: Path

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the log records with this event."""
        lines = [line for line in self.log.read_bytes().splitlines(keepends=True) if line.startswith(b"{")]
        records = [codec.loads(line) for line in lines if line.endswith(b"}\n")]
        return [record for record in records if record.get("event") == event]


@contextmanager
def running_worker(url: str, log: Path, pool: str = "solo", **environment: str) -> Iterator[RunningWorker]:
    """Run a worker as `planner worker` does, from when it consumes; at its end it must have stopped as asked."""
    wanted = {"planner:goals", "planner:{0}:outcomes"}
    command = worker_command(pool=pool)
    variables = {**os.environ, "PLANNER_REDIS_URL": url, **environment}
    with log.open("wb") as file, connect(url) as client:
        process = subprocess.Popen(command, env=variables, stdout=file, stderr=file)
        worker = RunningWorker(url, client, process, log)
        try:
            wait_until(
                lambda: (
                    process.poll() is not None or wanted <= {r["stream"] for r in worker.logged("ingress consumes")}
                ),
                timeout=60,
                what="worker consumes",
            )
            yield worker
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
        finally:
            process.kill()
            process.wait(60)


_WITH_WORKER = set[str]()  # servers that must not be emptied now


@pytest.fixture(scope="module")
def planner_worker(
    request: pytest.FixtureRequest, server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    """One worker for the module's tests, on the emptied server; its pool is solo unless parametrised indirectly.

    Tests that use it take its `redis` and `url`, since the fixtures of those names would empty the server under it.
    """
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
    log = tmp_path_factory.mktemp("worker") / "worker.log"
    with running_worker(server_url, log, getattr(request, "param", "solo")) as worker:
        _WITH_WORKER.add(server_url)
        yield worker
        _WITH_WORKER.clear()
