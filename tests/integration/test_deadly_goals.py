"""A goal that kills each worker that plans it is poison after a bounded number of them; with real processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from redis import Redis

from tests.conftest import running_worker, wait_until
from tests.support.engine import a_goal
from tests.support.faults import HASTE, kill, spawn
from tests.support.launch import command
from tests.support.messages import publish
from tests.support.stored import dead
from worker.store import keys

ROOT = Path(__file__).parents[2]
DEADLY = "Kill the worker"
SHIM = f"""
import os, signal
from tasks.handlers import goals
plan = goals.plan

def deadly(goal, *rest):
    if goal.goal == {DEADLY!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    return plan(goal, *rest)

goals.plan = deadly
"""


@pytest.mark.long
@pytest.mark.outages
def test_a_goal_that_kills_its_workers_is_poison_and_those_beside_it_are_planned(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SHIM)
    deadly = publish(redis, {**a_goal(1), "goal": DEADLY})
    beside = publish(redis, a_goal(1))
    with_shim = {"PLANNER_MAX_FAILURES": "2", "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}

    killed = 0
    while not dead(redis, keys.GOALS_DEAD):
        killed += is_killed(redis, spawn(command(HASTE), redis_url, tmp_path / "worker.log", **with_shim))
        assert killed <= 3

    (buried,) = dead(redis, keys.GOALS_DEAD)
    assert killed == 3  # at the first try, and at two that were counted
    assert (buried["entry"], buried["problem"]["code"]) == (deadly, "poison")
    assert not redis.hexists(keys.GOALS_FAILURES, deadly)
    with running_worker(redis_url, tmp_path / "other.log", PLANNER_CLAIM_IDLE_S="1"):
        wait_until(lambda: redis.hget(keys.goal_id(beside), "verdict") == b"PLANNED", what="the other goal is planned")


def is_killed(redis: Redis, worker: subprocess.Popen[bytes]) -> bool:
    """Wait until the goal has killed the worker, or is dead itself; returns whether the worker was killed."""
    try:
        wait_until(lambda: worker.poll() is not None or dead(redis, keys.GOALS_DEAD), what="a worker or the goal dies")
        return worker.poll() is not None
    finally:
        kill(worker)
