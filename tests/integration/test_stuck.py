"""A worker that lives and consumes nothing ends itself, with a code of its own; in an outage it stays."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tasks.routes import ROUTES
from tests.bench import fleet
from tests.conftest import RunningWorker, running_worker, wait_until
from tests.support import launch
from tests.support.faults import NO_OWNERS, children, consumes, is_stopped, kill, spawn
from tests.support.servers import Fleet, Server, all_done, publish
from tests.support.stored import P0, QUEUE
from worker.process.launch import worker_command
from worker.process.shutdown import STUCK
from worker.settings.settings import Settings
from worker.telemetry.status import living_workers

pytestmark = pytest.mark.outages

QUICK = {"PLANNER_WATCHDOG_S": "6", "PLANNER_STOP_S": "2"}
BITES_S = 50  # less than a watchdog waits by default
TASKS = [f"{route.task} does not end" for route in ROUTES]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "store") as server:
        yield server


@contextmanager
def prefork_worker(store: Server, tmp_path: Path) -> Iterator[RunningWorker]:
    """Run a worker with one child; however it ends."""
    log = tmp_path / "stuck.log"
    process = spawn(worker_command(), store.url, log, PLANNER_STATE_DIR=str(tmp_path), **QUICK)
    with store.client() as redis:
        worker = RunningWorker(store.url, redis, process, log)
        try:
            wait_until(lambda: _ready(worker), 60, "worker is ready")
            yield worker
        finally:
            kill(process)


def _ready(worker: RunningWorker) -> bool:
    return consumes(worker) and b" ready." in worker.log.read_bytes()


def freeze_the_child(worker: RunningWorker) -> int:
    (child,) = children(worker.process.pid)
    os.kill(child, signal.SIGSTOP)
    wait_until(lambda: is_stopped(child), what="child is stopped")
    return child


def test_a_worker_whose_pool_is_stuck_ends_with_its_code_and_others_go_on(store: Server, tmp_path: Path) -> None:
    with prefork_worker(store, tmp_path) as stuck:
        child = freeze_the_child(stuck)
        publish(stuck.redis, 0, 10)

        assert stuck.process.wait(BITES_S) == STUCK == 70

        (bite,) = stuck.logged("watchdog ends the worker")
        assert bite["exit_code"] == STUCK
        assert bite["reason"] in ["entries of planner:goals wait and none is begun", *TASKS]
        wait_until(lambda: is_gone(child), what="its child has ended")
        with running_worker(store.url, tmp_path / "other.log") as other, Fleet(store.url):
            all_done(other.redis, 10)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, perhaps without anybody to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.long
def test_it_is_noticed_too_while_others_do_the_work(store: Server, tmp_path: Path) -> None:
    with (
        running_worker(store.url, tmp_path / "other.log") as other,
        prefork_worker(store, tmp_path) as stuck,
        Fleet(store.url),
    ):
        freeze_the_child(stuck)
        publish(other.redis, 0, 60)

        assert stuck.process.wait(BITES_S) == STUCK
        all_done(other.redis, 60)


@pytest.mark.long
def test_where_one_child_is_stuck_another_goes_on_with_its_partition(store: Server, tmp_path: Path) -> None:
    with running_worker(store.url, tmp_path / "first.log") as first:
        publish(first.redis, 0, 2)
        stuck, other = wait_until(lambda: both_started(first.redis), 60, "two plans have started")
    command = launch.command({"worker.WAKEUP_STUCK_S": 1.0, **NO_OWNERS}, pool="prefork", stop=stuck["plan_id"])
    log = tmp_path / "stuck.log"
    process = spawn([*command, "--concurrency", "2"], store.url, log, PLANNER_CLAIM_IDLE_S="600")
    try:
        with store.client() as redis:
            wait_until(lambda: _ready(RunningWorker(store.url, redis, process, log)), 60, "worker is ready")
            fleet.answer(redis, [stuck])
            wait_until(lambda: any(map(is_stopped, children(process.pid))), 60, "child is stopped")

            fleet.answer(redis, [other])

            wait_until(lambda: redis.xlen(P0.outcomes) == 1, 60, "all but the stuck child's entry is applied")
            assert any(map(is_stopped, children(process.pid)))
    finally:
        kill(process)


def both_started(redis: Redis) -> list[dict[str, Any]]:
    """The specs of two plans, once they are there."""
    found: Any = redis.xrange(QUEUE)
    specs = [codec.loads(fields[b"data"]) for _, fields in found]
    return specs if len(specs) == 2 else []


@pytest.mark.parametrize("how", [pytest.param("refusing", marks=pytest.mark.long), "stalled"])
def test_in_an_outage_of_the_store_a_worker_is_live_and_not_ready_and_stays(
    store: Server, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path))

    def ready() -> bool:
        (status,) = living_workers(Settings())
        return not status.troubles(time.time())

    with running_worker(store.url, tmp_path / "worker.log", PLANNER_STATE_DIR=str(tmp_path), **QUICK) as worker:
        wait_until(ready, what="ready")
        publish(worker.redis, 0, 5)
        with getattr(store, how)():
            wait_until(lambda: not ready(), what="not ready")
            time.sleep(1.5 * float(QUICK["PLANNER_WATCHDOG_S"]))
            assert [status.store for status in living_workers(Settings())] == [False]
            assert worker.process.poll() is None
        wait_until(ready, 60, "ready again")
        with Fleet(store.url):
            all_done(worker.redis, 5)
        assert not worker.logged("watchdog ends the worker")
    assert living_workers(Settings()) == []


def test_a_worker_that_starts_before_its_server_waits_is_live_and_can_be_stopped(
    store: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path))
    store.kill()
    process = spawn(worker_command("solo"), store.url, tmp_path / "worker.log", PLANNER_STATE_DIR=str(tmp_path))
    try:
        (status,) = wait_until(lambda: living_workers(Settings()), 60, "live")
        assert status.troubles(time.time()) == ["it consumes nothing", "the store does not answer"]

        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 0  # less than it may take for work in hand
    finally:
        kill(process)


def test_a_worker_goes_on_without_a_state_directory(store: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        running_worker(store.url, tmp_path / "worker.log", PLANNER_STATE_DIR=str(tmp_path / "file")) as worker,
        Fleet(store.url),
    ):
        publish(worker.redis, 0, 3)
        all_done(worker.redis, 3)
        assert len(worker.logged("no state directory")) == 1
