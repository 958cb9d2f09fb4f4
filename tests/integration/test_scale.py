"""Many plans, and one large plan, through a real worker: all end, nothing is done twice, nothing is left over."""

from __future__ import annotations

from typing import Any

from redis import Redis

from tests.conftest import RunningWorker, wait_until
from tests.integration.test_main_job import HOME, nothing_waits, state_of, step_states
from worker.bench import fleet
from worker.store import keys


def publish_all(redis: Redis, goals: list[bytes]) -> list[str]:
    """Publish goals and wait until each has its plan; returns the plans."""
    known = redis.zcard(HOME.plans)
    pipeline = redis.pipeline(transaction=False)
    for goal in goals:
        pipeline.xadd(keys.GOALS, {"data": goal})
    pipeline.execute()
    wait_until(lambda: redis.zcard(HOME.plans) == known + len(goals), timeout=90, what="planned")
    wait_until(lambda: not redis.xlen(keys.GOALS), timeout=90, what="goals answered")
    plans: Any = redis.zrange(HOME.plans, known, -1)
    return [plan.decode() for plan in plans]


def test_a_thousand_plans_of_ten_steps_complete_with_every_step_done_once(planner_worker: RunningWorker) -> None:
    redis = planner_worker.redis
    plans = publish_all(redis, [fleet.goal(number, 10) for number in range(1000)])

    fleet.work(redis, 10_000)

    assert {state_of(redis, plan) for plan in plans} == {"COMPLETED"}
    assert all(step_states(redis, plan) == {"DONE after 1": 10} for plan in plans)
    wait_until(lambda: nothing_waits(redis), what="streams empty")
    wait_until(lambda: redis.hget(HOME.stats, "applied") == b"10000", what="all counted")


def test_a_plan_of_ten_thousand_steps_completes(planner_worker: RunningWorker) -> None:
    redis = planner_worker.redis
    (plan,) = publish_all(redis, [fleet.goal(1, 10_000, chains=16)])

    fleet.work(redis, 10_000)

    assert state_of(redis, plan) == "COMPLETED"
    assert step_states(redis, plan) == {"DONE after 1": 10_000}
    wait_until(lambda: nothing_waits(redis), what="streams empty")
