"""What a worker takes does not grow with its partitions."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis

from tests.conftest import RunningWorker, wait_until
from tests.support.faults import kill, spawn
from worker.host import open_files
from worker.process.launch import worker_command
from worker.process.lifecycle import Ingress
from worker.store.keys import Partition

PARTITIONS = 256
MOST_CONNECTIONS = 14  # of worker, its one slot, and their broker
MOST_THREADS = 8


@pytest.mark.outages
def test_a_worker_of_256_partitions_has_few_connections_threads_and_files(
    redis_url: str, redis: Redis, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    before = len(redis.client_list())
    process = spawn(worker_command("solo"), redis_url, log, PLANNER_PARTITIONS=str(PARTITIONS))
    worker = RunningWorker(redis_url, redis, process, log)
    try:
        owners = [Partition(number).owner for number in range(PARTITIONS)]
        wait_until(lambda: redis.exists(*owners) == PARTITIONS, 120, "it owns all")
        sweeps: Any = [Partition(number).sweep for number in range(PARTITIONS)]
        wait_until(lambda: redis.exists(*sweeps) == PARTITIONS, 120, "each is swept")

        assert len(redis.client_list()) - before <= MOST_CONNECTIONS
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) <= MOST_THREADS
        assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) < 100
        assert worker.logged("ingress failed") == []
    finally:
        kill(process)


def test_too_few_files_are_refused_with_the_number_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [256, 1024]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.__setitem__(slice(None), both))

    open_files.require(600)
    assert limits == [600, 1024]
    with pytest.raises(open_files.TooFewFiles, match="may open 1024 files and needs 2000"):
        open_files.require(2000)


def test_the_limit_is_raised_before_the_pool_forks(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [256, 10_000]
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.__setitem__(slice(None), both))

    Ingress(Mock(concurrency=20))  # Celery makes all steps before it starts the first one

    assert limits[0] > 256
