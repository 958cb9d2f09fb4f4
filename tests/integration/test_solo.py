"""A worker with one slot: while it plans a goal, outcomes go on, and are applied once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from schemas.base import GoalVerdict
from tests.bench import fleet
from tests.conftest import RunningWorker, connect, running_worker, wait_until
from tests.support.faults import kill, spawn
from tests.support.messages import publish_all
from tests.support.proxy import When, running_proxy
from tests.support.stored import plans, state, step_states
from worker.process.launch import worker_command
from worker.store import keys

pytestmark = pytest.mark.outages

LARGE = 10_000
SMALLER = 5000  # still several round trips
PATIENCE_S = 120


@pytest.fixture
def worker(redis_url: str, tmp_path: Path) -> Iterator[RunningWorker]:
    with running_worker(redis_url, tmp_path / "worker.log", "solo") as running:
        yield running


def verdict(redis: Redis, goal_id: str) -> str:
    found: Any = redis.hget(keys.goal_id(goal_id), "verdict")
    return found.decode() if found else GoalVerdict.PENDING


def answer_next(redis: Redis) -> float:
    """Answer the one step that is in flight; returns the seconds until the next one was there."""
    began = time.perf_counter()
    specs = fleet.read(redis, 1, block_ms=PATIENCE_S * 1000)
    assert specs, "no step came"
    fleet.answer(redis, specs)
    return time.perf_counter() - began


@pytest.mark.long
def test_while_a_solo_worker_plans_ten_thousand_steps_no_outcome_waits_for_the_end_of_it(worker: RunningWorker) -> None:
    redis, large = worker.redis, fleet.goal(1, LARGE, chains=16)
    publish_all(redis, [fleet.goal(2, 5000)])
    answer_next(redis)

    redis.xadd(keys.GOALS, {"data": large})
    began, waits = time.perf_counter(), []
    while verdict(redis, f"bench-{LARGE}-1") == GoalVerdict.PENDING:
        waits.append(answer_next(redis))
    planning = time.perf_counter() - began

    assert verdict(redis, f"bench-{LARGE}-1") == GoalVerdict.PLANNED
    told = f"{planning:.2f} s, {len(waits)} outcomes meanwhile, the longest waited {max(waits):.2f} s"
    assert max(waits) < planning / 2, told


def test_a_solo_worker_that_is_stopped_while_it_plans_makes_the_plan_and_ends(redis_url: str, tmp_path: Path) -> None:
    with running_worker(redis_url, tmp_path / "worker.log", "solo", PLANNER_STOP_S="55") as worker:
        worker.redis.xadd(keys.GOALS, {"data": fleet.goal(1, LARGE, chains=16)})
        wait_until(lambda: reads_a_goal(worker.redis), what="goal read")

    with connect(redis_url) as redis:
        assert verdict(redis, f"bench-{LARGE}-1") == GoalVerdict.PLANNED


@pytest.mark.long
def test_what_a_killed_solo_worker_had_begun_to_write_is_gone_on_with(redis_url: str, tmp_path: Path) -> None:
    with connect(redis_url) as redis, running_proxy(redis_url) as proxy:
        log = tmp_path / "killed.log"
        process = spawn(worker_command("solo"), proxy.url, log, PLANNER_BROKER_URL=redis_url)
        try:
            trap = proxy.trap("^FCALL planner_commit", When.AFTER, lambda: kill(process))
            redis.xadd(keys.GOALS, {"data": fleet.goal(1, SMALLER, chains=16)})
            assert trap.sprung.wait(90), log.read_text()[-3000:]
        finally:
            kill(process)
        assert verdict(redis, f"bench-{SMALLER}-1") == GoalVerdict.PENDING
        (plan,) = plans(redis)
        assert state(redis, plan) == "CREATED"

        with running_worker(redis_url, tmp_path / "worker.log", "solo", PLANNER_CLAIM_IDLE_S="1"):
            wait_until(lambda: verdict(redis, f"bench-{SMALLER}-1") == GoalVerdict.PLANNED, timeout=90, what="planned")
            fleet.work(redis, SMALLER)
            assert plans(redis) == [plan]
            assert (state(redis, plan), step_states(redis, plan)) == ("COMPLETED", {"DONE after 1": SMALLER})


def reads_a_goal(redis: Redis) -> bool:
    """Whether a worker has a goal in hand."""
    with suppress(ResponseError):  # no stream or no group
        found: Any = redis.xpending(keys.GOALS, keys.GROUP)
        return bool(found["pending"])
    return False
