"""Many plans, and one large plan, through a real worker: all end, nothing is done twice, nothing is left over."""

from __future__ import annotations

import pytest

from tests.bench import fleet
from tests.conftest import RunningWorker, wait_until
from tests.support.messages import publish_all
from tests.support.stored import P0, nothing_waits, state, step_states

pytestmark = pytest.mark.outages  # for their length


@pytest.mark.long
def test_a_thousand_plans_of_ten_steps_complete_with_every_step_done_once(planner_worker: RunningWorker) -> None:
    redis = planner_worker.redis
    plans = publish_all(redis, [fleet.goal(number, 10) for number in range(1000)])

    fleet.work(redis, 10_000)

    assert {state(redis, plan) for plan in plans} == {"COMPLETED"}
    assert all(step_states(redis, plan) == {"DONE after 1": 10} for plan in plans)
    wait_until(lambda: nothing_waits(redis), what="streams empty")
    wait_until(lambda: redis.hget(P0.stats, "applied") == b"10000", what="all counted")


@pytest.mark.long
def test_a_plan_of_ten_thousand_steps_completes(planner_worker: RunningWorker) -> None:
    redis = planner_worker.redis
    (plan,) = publish_all(redis, [fleet.goal(1, 10_000, chains=16)])

    fleet.work(redis, 10_000)

    assert state(redis, plan) == "COMPLETED"
    assert step_states(redis, plan) == {"DONE after 1": 10_000}
    wait_until(lambda: nothing_waits(redis), what="streams empty")
