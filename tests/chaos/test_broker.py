"""A separate broker dies again and again while more partitions are busy than the workers have slots."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.bench import fleet
from tests.conftest import RunningWorker, connect, wait_until
from tests.support.faults import consumes, kill, spawn
from tests.support.messages import goals_of_partitions, read_specs
from tests.support.servers import Server
from tests.support.stored import applied
from worker.process.launch import worker_command
from worker.store import keys

MANY, SLOTS = 16, 2  # partitions, and what each worker does at a time
PLANS_A_MINUTE, STEPS = 64, 20
POOLS = ("prefork", "solo")

pytestmark = pytest.mark.chaos


class Mortal(threading.Thread):
    """A broker that is killed and started again for some seconds, by the seed; `deaths` counts."""

    def __init__(self, broker: Server, seed: int, seconds: float) -> None:
        super().__init__(name="mortal", daemon=True)
        self._broker, self._rng, self._seconds = broker, Random(f"{seed}|broker"), seconds
        self.deaths = 0

    def run(self) -> None:
        """Die and come back until the time is over; it lives at the end."""
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            time.sleep(self._rng.uniform(0.5, 4))
            with self._broker.refusing():
                time.sleep(self._rng.choice((0.1, 1, 5)))
            self.deaths += 1


@contextmanager
def workers(store: Server, broker: Server, directory: Path) -> Iterator[list[RunningWorker]]:
    """Run a worker of each pool; nothing of them is left afterwards."""
    running = []
    with store.client() as redis:
        try:
            for pool in POOLS:
                log = directory / f"{pool}.log"
                command = worker_command(pool=pool, concurrency=SLOTS)
                environment = {"PLANNER_BROKER_URL": broker.url, "PLANNER_PARTITIONS": str(MANY)}
                running.append(RunningWorker(store.url, redis, spawn(command, store.url, log, **environment), log))
            wait_until(lambda: all(map(consumes, running)), 60, "workers consume")
            yield running
        finally:
            for worker in running:
                kill(worker.process)


def test_workers_outlive_their_broker_and_every_partition_goes_on(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed = request.config.getoption("--chaos-seed") or int(time.time())
    minutes = request.config.getoption("--chaos-minutes")
    each = max(1, int(PLANS_A_MINUTE * minutes / MANY))
    with (
        Server(tmp_path / "store") as store,
        Server(tmp_path / "broker") as broker,
        workers(store, broker, tmp_path) as running,
        connect(store.url) as redis,
    ):
        mortal = Mortal(broker, seed, 40 * minutes)
        mortal.start()
        for goal in goals_of_partitions(MANY, each, STEPS):
            redis.xadd(keys.GOALS, {"data": goal})

        def over() -> bool:
            for worker in running:
                assert worker.process.poll() is None, (seed, worker.log.read_text()[-3000:])
            for number in range(MANY):
                fleet.answer(redis, read_specs(redis, number))
            return applied(redis, MANY) == [each * STEPS] * MANY and not mortal.is_alive()

        wait_until(over, 240 * max(1, minutes), f"every step is done once, seed {seed}")
        assert mortal.deaths
        with broker.client() as wakeups:
            assert wakeups.llen("planner.outcomes") <= MANY * len(POOLS) * (1 + mortal.deaths)
        for worker in running:
            worker.process.send_signal(signal.SIGTERM)
        assert [worker.process.wait(60) for worker in running] == [0, 0]
