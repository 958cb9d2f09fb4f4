"""Workers that stop, restart and recycle their processes under load: nothing is lost, and nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.conftest import RunningWorker, running_worker, wait_until
from tests.support.faults import children, consumes, is_stopped, kill, spawn
from tests.support.servers import Fleet, Server, all_done, ended, in_the_middle, publish
from worker.process import launch
from worker.process.launch import worker_command
from worker.store import functions, keys
from worker.store.keys import GROUP, Partition
from worker.streams import release
from worker.streams.fair_inbox import WAITING

pytestmark = pytest.mark.outages

HOME = Partition(0)
STREAMS = (keys.GOALS, HOME.outcomes, HOME.commands)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "store") as server:
        yield server


def consumers(redis: Redis) -> dict[str, int]:
    """Every worker's name in the groups, with how many entries are pending for him."""
    found: list[Any] = [one for stream in STREAMS for one in redis.xinfo_consumers(stream, GROUP)]
    return {one["name"].decode(): one["pending"] for one in found if one["name"] != WAITING.encode()}


def test_a_worker_that_stopped_leaves_no_name_behind(store: Server, tmp_path: Path) -> None:
    for pool in ("solo", "prefork", "threads"):
        with running_worker(store.url, tmp_path / f"{pool}.log", pool) as worker, Fleet(store.url):
            known = ended(worker.redis)
            publish(worker.redis, known, 5)
            all_done(worker.redis, known + 5)
            assert consumers(worker.redis)
        with store.client() as redis:
            assert consumers(redis) == {}, pool


DELAYS_S = (0.0, 0.3, 0.7, 1.2, 2.0, 3.0)  # the first is before anything of ours has run
PLANNER = (sys.executable, "-c", "from worker.start import planner; planner()")


@pytest.mark.parametrize(
    "command", ["worker", "controller", *(pytest.param(each, marks=pytest.mark.long) for each in ("up", "gateway"))]
)
def test_told_to_stop_at_any_moment_of_its_start_a_process_ends_well(
    store: Server, command: str, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path / "repo"], check=True)
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"],
        cwd=tmp_path / "repo",
        check=True,
    )
    options = ["--workdir", str(tmp_path / "repo")] if command == "controller" else []
    for delay in DELAYS_S:
        log = tmp_path / f"{delay}.log"
        with launch.stop_signals_wait():  # as a careful supervisor does: Python itself takes a moment to start
            process = spawn([*PLANNER, command, *options], store.url, log)
        try:
            time.sleep(delay)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (delay, log.read_text()[-3000:])
        finally:
            kill(process)


def test_a_rolling_restart_under_load_loses_nothing_and_doubles_nothing(store: Server, tmp_path: Path) -> None:
    with store.client() as redis, ExitStack() as last, Fleet(store.url):
        pools, running = ("prefork", "solo"), [ExitStack(), ExitStack()]
        for number, (stack, pool) in enumerate(zip(running, pools, strict=True)):
            last.enter_context(stack)
            stack.enter_context(running_worker(store.url, tmp_path / f"first-{number}.log", pool))
        for restart in range(3):
            stack, pool = running[restart % 2], pools[restart % 2]
            publish(redis, 40 * restart, 40)
            stack.close()  # the other one goes on meanwhile
            stack.enter_context(running_worker(store.url, tmp_path / f"{restart}.log", pool))
        all_done(redis, 120, timeout=90)


def test_processes_that_are_replaced_lose_nothing_and_leave_no_names(store: Server, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    process = spawn(worker_command(recycle=10), store.url, log)
    try:
        with store.client() as redis, Fleet(store.url):
            worker = RunningWorker(store.url, redis, process, log)
            wait_until(lambda: consumes(worker), 60, "worker consumes")
            before = children(process.pid)
            for number in range(10):
                publish(redis, 5 * number, 5)
                in_the_middle(redis, 5 * number)
            all_done(redis, 50, timeout=90)
            wait_until(lambda: not set(before) & set(children(process.pid)), what="replaced")
            wait_until(lambda: pids(redis) <= {*children(process.pid), process.pid}, what="names of the dead are gone")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        kill(process)


def pids(redis: Redis) -> set[int]:
    """The processes whose names stand in the groups."""
    return {int(name.rsplit("-", 2)[1]) for name in consumers(redis)}


def test_what_is_in_hand_when_the_time_is_over_goes_to_others_at_once(store: Server, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    process = spawn(worker_command(), store.url, log, PLANNER_STOP_S="2", PLANNER_CLAIM_IDLE_S="3600")
    try:
        with store.client() as redis, Fleet(store.url):
            worker = RunningWorker(store.url, redis, process, log)
            wait_until(lambda: consumes(worker), 60, "worker consumes")
            publish(redis, 0, 100)
            stopped_in_the_middle(redis, process.pid)
            process.send_signal(signal.SIGTERM)

            assert process.wait(20) == 0  # less than the time that a worker has by default

            assert worker.logged("stopped in the middle")
            assert sum(one["count"] for one in worker.logged("entries handed back")) > 0
            assert set(consumers(redis).values()) != {0}
            with running_worker(store.url, tmp_path / "other.log", PLANNER_CLAIM_IDLE_S="3600"):
                all_done(redis, 100)
    finally:
        kill(process)


def stopped_in_the_middle(redis: Redis, pid: int) -> None:
    """Stop the one child of a worker while it has entries in its hands."""
    (child,) = children(pid)

    def caught() -> bool:
        os.kill(child, signal.SIGSTOP)
        wait_until(lambda: is_stopped(child), what="child is stopped")
        if any(count for name, count in consumers(redis).items() if f"-{child}-" in name):
            return True
        os.kill(child, signal.SIGCONT)
        return False

    wait_until(caught, what="a child with entries in its hands")


def test_only_consumers_with_nothing_pending_are_ever_deleted(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    functions.load(redis)
    for stream in STREAMS[:2]:
        redis.xgroup_create(stream, GROUP, mkstream=True)
        redis.xadd(stream, {"data": "x"})
        redis.xgroup_createconsumer(stream, GROUP, "idle")
        redis.xreadgroup(GROUP, "busy", {stream: ">"})

    assert release.delete_idle_consumers(redis, 1) == 0  # nobody was idle for long
    monkeypatch.setattr(release, "FORGOTTEN_MS", 0)
    assert release.delete_idle_consumers(redis, 1) == 2

    assert [one["name"] for one in redis.xinfo_consumers(HOME.outcomes, GROUP)] == [b"busy"]
    assert redis.xpending(HOME.outcomes, GROUP)["pending"] == 1


def test_consumers_that_asked_the_forges_are_forgotten_too(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    functions.load(redis)
    redis.xgroup_create(keys.WEBHOOK_JOBS, GROUP, mkstream=True)
    redis.xgroup_createconsumer(keys.WEBHOOK_JOBS, GROUP, "idle")
    monkeypatch.setattr(release, "FORGOTTEN_MS", 0)

    assert release.delete_idle_consumers(redis, 1) == 1
    assert redis.xinfo_consumers(keys.WEBHOOK_JOBS, GROUP) == []
