"""Servers that refuse, stall, restart, are full or emptied: a worker goes on, or waits, says so once, and resumes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from tests.conftest import RunningWorker, running_worker, wait_until
from tests.support import launch
from tests.support.faults import HASTE, children, consumes, is_stopped, kill, spawn
from tests.support.proxy import When, running_proxy
from tests.support.servers import Fleet, Server, all_done, ended, in_the_middle, publish
from worker import celery

pytestmark = pytest.mark.outages

AWAY_S = 6.0  # how long servers are away here; 60 and more make no difference to the worker but its patience
KOMBU = ("planner.decompose", "planner.outcomes", "planner.upkeep")  # the lists in which kombu keeps wake-ups


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "store") as server:
        yield server


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "broker") as server:
        yield server


@contextmanager
def worker_on(store: Server, broker: Server | None, tmp_path: Path, pool: str = "solo") -> Iterator[RunningWorker]:
    """Run a worker; it must still be there at the end, and end as asked."""
    apart = {"PLANNER_BROKER_URL": broker.url} if broker else {}
    with running_worker(store.url, tmp_path / "worker.log", pool, PLANNER_STATE_DIR=str(tmp_path), **apart) as worker:
        yield worker
        assert worker.process.poll() is None, worker.log.read_text()[-3000:]


def times(worker: RunningWorker, *events: str) -> list[int]:
    """Count what was said."""
    return [len(worker.logged(event)) for event in events]


@pytest.mark.parametrize("pool", ["solo", "prefork"])
@pytest.mark.parametrize("how", ["refusing", "stalled"])
def test_goals_and_outcomes_go_on_without_a_broker(
    store: Server, broker: Server, how: str, pool: str, tmp_path: Path
) -> None:
    with worker_on(store, broker, tmp_path, pool) as worker, Fleet(store.url):
        publish(worker.redis, 0, 5)
        all_done(worker.redis, 5)
        with getattr(broker, how)():
            publish(worker.redis, 5, 20)
            all_done(worker.redis, 25)
            wait_until(lambda: times(worker, "broker away") == [1], what="broker away")
            assert times(worker, "broker back", "store away") == [0, 0]
        publish(worker.redis, 25, 5)
        all_done(worker.redis, 30)
        wait_until(lambda: times(worker, "broker back") == [1], 90, "broker back")
        assert times(worker, "broker away") == [1]


@pytest.mark.parametrize("pool", ["solo", "prefork"])
@pytest.mark.parametrize(
    "seconds", [0.5, 2.5, pytest.param(7.0, marks=pytest.mark.long)]
)  # between looks of sender and consumer, in any order
def test_an_outage_that_an_idle_worker_meets_is_said_once_and_over_soon(
    store: Server, broker: Server, seconds: float, pool: str, tmp_path: Path
) -> None:
    with worker_on(store, broker, tmp_path, pool) as worker, Fleet(store.url):
        publish(worker.redis, 0, 1)
        all_done(worker.redis, 1)
        with broker.client() as wakeups:
            wait_until(lambda: is_waiting(wakeups) and not wakeups.hlen("unacked"), what="no wakeup is under way")
        with broker.refusing():
            wait_until(lambda: times(worker, "broker away") == [1], what="broker away")
            time.sleep(seconds)  # the outage itself
        wait_until(lambda: times(worker, "broker back") == [1], what="broker back")
        publish(worker.redis, 1, 5)
        all_done(worker.redis, 6)

        assert times(worker, "broker away", "broker back") == [1, 1]


def test_a_stalled_broker_does_not_cost_its_timeout_for_each_wakeup(
    store: Server, broker: Server, tmp_path: Path
) -> None:
    with worker_on(store, broker, tmp_path) as worker, Fleet(store.url), broker.stalled():
        publish(worker.redis, 0, 1)
        all_done(worker.redis, 1)  # it has met the stall

        begin = time.monotonic()
        publish(worker.redis, 1, 1, steps=40)  # one after the other: forty wake-ups, had they to be sent
        wait_until(lambda: ended(worker.redis) == 2, what="plan ends")

        assert time.monotonic() - begin < 40  # the timeout alone would be twice that


def test_a_worker_outlives_a_broker_that_dies_while_wakeups_are_in_its_hands(
    store: Server, broker: Server, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    command = [*launch.command(HASTE, pool="prefork"), "--concurrency", "4"]
    process = spawn(command, store.url, log, PLANNER_BROKER_URL=broker.url)
    try:
        with store.client() as redis, broker.client() as wakeups:
            worker = RunningWorker(store.url, redis, process, log)
            wait_until(lambda: consumes(worker) and is_waiting(wakeups), 60, "worker waits for wake-ups")
            pool = children(process.pid)
            wait_until(lambda: is_stopped_with_wakeups(pool, wakeups), 60, "wakeups are in its hands")
            send(signal.SIGSTOP, process.pid)
            wakeups.client_kill_filter(_type="pubsub")  # so that this is the connection on which the worker notices

            with broker.refusing():
                send(signal.SIGCONT, process.pid)
                wait_until(lambda: process.poll() is not None or times(worker, "broker away") == [1], 60, "broker away")
            wait_until(lambda: process.poll() is not None or is_waiting(wakeups), 60, "worker waits for wake-ups again")
            send(signal.SIGCONT, *pool)  # the wake-ups of the lost connection are done now

            assert process.poll() is None, log.read_text()[-3000:]
            with Fleet(store.url):
                publish(redis, 0, 10)
                all_done(redis, 10)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()[-3000:]
    finally:
        kill(process)


def is_stopped_with_wakeups(pool: list[int], broker: Redis) -> bool:
    """Stop a pool, and let it go on if its worker gets no wake-ups: children that were stopped have them."""
    send(signal.SIGSTOP, *pool)
    wait_until(lambda: all(map(is_stopped, pool)), what="pool is stopped")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if broker.hlen("unacked") and is_waiting(broker):
            return True
        time.sleep(0.01)
    send(signal.SIGCONT, *pool)
    return False


def send(number: signal.Signals, *pids: int) -> None:
    """Send a signal to processes."""
    for pid in pids:
        os.kill(pid, number)


def is_waiting(broker: Redis) -> bool:
    """Whether a worker waits at the broker for its next wake-up."""
    return any(client["cmd"] == "brpop" for client in broker.client_list())


def test_a_full_broker_is_done_without(store: Server, broker: Server, tmp_path: Path) -> None:
    with (
        worker_on(store, broker, tmp_path) as worker,
        Fleet(store.url),
        broker.client() as full,
    ):
        full.config_set("maxmemory", 1)
        publish(worker.redis, 0, 10)
        all_done(worker.redis, 10)
        wait_until(lambda: times(worker, "broker away") == [1], what="broker away")  # a pool without work is not woken
        (away,) = worker.logged("broker away")
        assert "maxmemory" in away["error"]

        full.config_set("maxmemory", 0)
        publish(worker.redis, 10, 10)
        all_done(worker.redis, 20)
        wait_until(lambda: times(worker, "broker back") == [1], 90, "broker back")


@pytest.mark.parametrize("how", ["refusing", "stalled"])
def test_a_worker_waits_for_the_store_says_so_once_and_resumes(
    store: Server, broker: Server, how: str, tmp_path: Path
) -> None:
    with worker_on(store, broker, tmp_path) as worker, Fleet(store.url):
        publish(worker.redis, 0, 20)
        with getattr(store, how)():
            wait_until(lambda: times(worker, "store away") == [1], what="store away")
            time.sleep(AWAY_S)  # the outage itself
        all_done(worker.redis, 20)
        publish(worker.redis, 20, 5)
        all_done(worker.redis, 25)
        wait_until(lambda: times(worker, "store back") == [1], what="store back")
        assert times(worker, "store away", "broker away") == [1, 0]


@pytest.mark.parametrize("pool", ["solo", "prefork", "threads"])
def test_plans_outlive_a_restart_of_the_only_server(store: Server, pool: str, tmp_path: Path) -> None:
    with worker_on(store, None, tmp_path, pool) as worker, Fleet(store.url):
        for number in range(2):
            publish(worker.redis, 20 * number, 20)
            in_the_middle(worker.redis, 20 * number)
            with store.refusing():
                pass
        all_done(worker.redis, 40)


def test_a_server_that_lost_its_functions_gets_them_again(store: Server, tmp_path: Path) -> None:
    with worker_on(store, None, tmp_path) as worker, Fleet(store.url):
        for number in range(3):
            publish(worker.redis, 10 * number, 10)
            in_the_middle(worker.redis, 10 * number)
            worker.redis.function_flush()
        all_done(worker.redis, 30)


def test_purged_and_doubled_wakeups_change_nothing(store: Server, tmp_path: Path) -> None:
    with worker_on(store, None, tmp_path) as worker, Fleet(store.url):
        publish(worker.redis, 0, 30)

        def ended_though_disturbed() -> bool:
            worker.redis.delete(*KOMBU)
            for task, args in (("planner.decompose", ()), ("planner.outcomes", (0,)), ("planner.upkeep", (0,))):
                for _ in range(2):
                    wakeup(store.url, task, args)
            return ended(worker.redis) == 30

        wait_until(ended_though_disturbed, 120, "its plans end")
        all_done(worker.redis, 30)


@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_a_wakeup_whose_end_the_broker_was_not_told_of_keeps_no_other_back(
    store: Server, pool: str, tmp_path: Path
) -> None:
    with running_proxy(store.url) as proxy:
        apart = {"PLANNER_BROKER_URL": proxy.url, "PLANNER_STATE_DIR": str(tmp_path)}
        with running_worker(store.url, tmp_path / "worker.log", pool, **apart) as worker, Fleet(store.url):
            lost = proxy.trap("ZREM unacked_index", When.BEFORE)
            publish(worker.redis, 0, 1)
            assert lost.sprung.wait(60)

            publish(worker.redis, 1, 5)
            all_done(worker.redis, 6, timeout=40)  # less than the watchdog waits


def wakeup(url: str, task: str, args: tuple[int, ...]) -> None:
    """Send a wake-up that nobody asked for."""
    with celery.app.connection_for_write(url) as connection:
        celery.app.send_task(task, args, connection=connection, ignore_result=True)
