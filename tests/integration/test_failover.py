"""A master that dies under real sentinels: worker, controllers and command line follow to the next one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tests.conftest import running_worker, wait_until
from tests.support.servers import BINARY, Fleet, Server, all_done, ended, planned, publish
from worker.host.embedded_server import free_port
from worker.store import clients

pytestmark = pytest.mark.outages

MASTER = "planner-store"
DOWN_AFTER_MS = 4000  # a machine that stands still for less fails nothing over


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """A master and its replica."""
    first = Server(tmp_path / "first")
    second = Server(tmp_path / "second", "--replicaof", f"127.0.0.1 {first.port}")
    with first, second:
        with second.client() as client:
            wait_until(lambda: client.info("replication")["master_link_status"] == "up", what="replica in sync")
        yield first, second


@pytest.fixture
def url(servers: tuple[Server, Server], tmp_path: Path) -> Iterator[str]:
    """The URL of the set, once its three sentinels agree."""
    ports = [free_port() for _ in range(3)]
    with ExitStack() as running:
        for port in ports:
            running.callback(stop, sentinel(port, servers[0].port, tmp_path / f"sentinel-{port}"))
        wait_until(lambda: all(knows_all(port) for port in ports), what="sentinels know each other and the replica")
        yield f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/{MASTER}"


def sentinel(port: int, master: int, directory: Path) -> subprocess.Popen[bytes]:
    """Start a sentinel."""
    directory.mkdir()
    config = directory / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {directory}\nsentinel monitor {MASTER} 127.0.0.1 {master} 2\n"
        f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\nsentinel failover-timeout {MASTER} 5000\n"
    )
    with (directory / "log").open("wb") as log:
        return subprocess.Popen([BINARY, config, "--sentinel"], stdout=log, stderr=log)


def knows_all(port: int) -> bool:
    """Whether a sentinel has met the other two and the replica."""
    try:
        with Redis(port=port) as client:
            master = client.sentinel_master(MASTER)
    except RedisError:
        return False
    return bool(master["num-other-sentinels"] == 2 and master["num-slaves"] == 1)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(60)


def test_plans_go_on_to_their_end_on_the_next_master(servers: tuple[Server, Server], url: str, tmp_path: Path) -> None:
    first, second = servers
    store = clients.connect(url)
    with (
        running_worker(first.url, tmp_path / "worker.log", "prefork", PLANNER_REDIS_URL=url) as worker,
        Fleet(url),
        store,
    ):
        publish(store, 0, 40, steps=40)
        wait_until(lambda: planned(store) == 40, 60, "all planned")
        assert ended(store) < 40
        wait_until(lambda: store.wait(1, 1000) >= 1, what="the replica has it all")

        first.kill()

        with second.client() as redis:
            wait_until(lambda: is_master(redis), 120, "replica is the master")  # sentinels in tilt wait for 30 s
            all_done(redis, 40, steps=40)
            publish(redis, 40, 5, steps=40)
            all_done(redis, 45, steps=40)
        wait_until(lambda: worker.logged("store back"), what="every thread has found the next master")
        assert len(worker.logged("store away")) == len(worker.logged("store back")) == 1
        assert listed(url) == 45


def is_master(redis: Redis) -> bool:
    """Whether this server takes writes; whoever promotes it closes its connections, that of the question too."""
    with suppress(RedisError):
        found: Any = redis.info("replication")
        return bool(found["role"] == "master")
    return False


def listed(url: str) -> int:
    """How many plans the command line sees."""
    planner = [sys.executable, "-c", "from worker.cli.commands.app import main; main()"]
    command = [*planner, "plans", "--limit", "100", "--json"]
    done = subprocess.run(
        command, env={"PLANNER_REDIS_URL": url, "PATH": "/usr/bin:/bin"}, capture_output=True, timeout=60, check=True
    )
    return len(json.loads(done.stdout))
