"""The main job on the real machine: a real Celery worker under each pool, a fleet that answers, real streams."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tests.bench import fleet
from tests.conftest import RunningWorker, wait_until
from tests.support.messages import publish, verdict_of
from tests.support.stored import P0, nothing_waits, plans, state, step_states
from worker.store import keys

pools = pytest.mark.parametrize(
    "planner_worker", ["solo", "prefork", pytest.param("threads", marks=pytest.mark.outages)], indirect=True
)


@pools
def test_plans_run_to_their_end_under_every_pool(planner_worker: RunningWorker) -> None:
    redis = planner_worker.redis
    for number in range(60):
        redis.xadd(keys.GOALS, {"data": fleet.goal(number, 5)})

    wait_until(lambda: redis.zcard(P0.plans) >= 60 and not redis.xlen(keys.GOALS), timeout=60, what="planned")
    fleet.work(redis, 300)

    made = plans(redis)
    assert {state(redis, plan) for plan in made} == {"COMPLETED"}
    assert all(step_states(redis, plan) == {"DONE after 1": 5} for plan in made)
    wait_until(lambda: nothing_waits(redis), what="streams empty")
    wait_until(lambda: redis.hget(P0.stats, "applied") == b"300", what="all counted")
    seconds: Any = redis.time()
    assert not redis.zcount(P0.timers, "-inf", 1000 * (seconds[0] + 86_400))  # beyond: when ended plans are forgotten


@pools
def test_one_line_of_redis_cli_leads_to_a_step_spec(planner_worker: RunningWorker) -> None:
    redis = planner_worker.redis

    goal_id = publish(
        redis,
        {
            "goal": "Add prefix support",
            "allowed_files": ["src/a.py", "tests/test_a.py"],
            "context": {"language": "python"},
        },
    )

    answer = verdict_of(redis, goal_id)
    assert answer[b"verdict"] == b"PLANNED"
    (spec,) = [s for s in wait_until(lambda: fleet.read(redis, 10)) if s["plan_id"] == answer[b"plan_id"].decode()]
    assert (spec["step_id"], spec["attempt"], spec["reply_to"]) == ("understand-requirements", 1, P0.outcomes)


@pools
def test_a_goal_that_breaks_a_rule_is_rejected_with_every_reason(planner_worker: RunningWorker) -> None:
    redis = planner_worker.redis

    goal_id = publish(redis, {"goal": "Fix the login", "allowed_files": ["../etc/passwd", ".env", "src/a.py"]})

    answer = verdict_of(redis, goal_id)
    assert answer[b"verdict"] == b"REJECTED"
    halt: Any = redis.hget(P0.plan(answer[b"plan_id"].decode()).plan, "halt")
    errors = codec.loads(halt)["evidence"]["errors"]
    assert [error["pointer"] for error in errors] == ["/allowed_files/0", "/allowed_files/1"]


@pools
@pytest.mark.parametrize(
    ("stream", "dead", "fields", "code"),
    [
        (keys.GOALS, keys.GOALS_DEAD, {"data": "not json"}, "invalid_json"),
        (keys.GOALS, keys.GOALS_DEAD, {"body": "{}"}, "no_data"),
        (keys.GOALS, keys.GOALS_DEAD, {"data": '{"goal": 7}'}, "invalid_message"),
        (keys.GOALS, keys.GOALS_DEAD, {"data": '{"goal":"x","constraints":["%s"]}' % ("y" * 10**6)}, "invalid_message"),
        (keys.GOALS, keys.GOALS_DEAD, {"data": '{"goal":"x","note":"%s"}' % ("y" * 10**6)}, "goal_too_large"),
        (keys.GOALS, keys.GOALS_DEAD, {"data": b'{"goal":"\xff\xfe"}'}, "invalid_json"),
        (P0.outcomes, P0.dead, {"data": "[" * 100_000}, "invalid_json"),
        (P0.outcomes, P0.dead, {"data": '{"step_id":"a","pad":"%s"}' % ("y" * 10**6)}, "outcome_too_large"),
        (P0.outcomes, P0.dead, {"data": '{"step_id":"a","success":true}'}, "missing_plan_id"),
        (P0.outcomes, P0.dead, {"nothing": "here"}, "no_data"),
    ],
    ids=lambda value: value if isinstance(value, str) and "_" in value and ":" not in value else "",
)
def test_what_cannot_be_read_goes_to_the_dead_stream_and_the_worker_goes_on(
    planner_worker: RunningWorker, stream: str, dead: str, fields: dict[Any, Any], code: str
) -> None:
    redis = planner_worker.redis
    before = redis.xlen(dead)

    entry: Any = redis.xadd(stream, fields)

    wait_until(lambda: redis.xlen(dead) > before, what="dead entry")
    last: Any = redis.xrevrange(dead, count=1)
    ((_, found),) = last
    problem = codec.loads(found[b"problem"])
    assert (problem["problem"]["code"], problem["stream"]) == (code, stream)
    assert problem["entry"] == entry.decode()
    assert len(found[b"data"]) <= 64 * 1024
    assert planner_worker.process.poll() is None


@pools
def test_an_outcome_of_an_unknown_plan_is_counted_and_gone(planner_worker: RunningWorker) -> None:
    redis = planner_worker.redis
    stranger = "plan_00-" + "0" * 32
    before = int(redis.hget(P0.stats, "unknown") or 0)

    redis.xadd(P0.outcomes, {"data": codec.dumps({"step_id": "a", "success": True, "plan_id": stranger})})

    wait_until(lambda: int(redis.hget(P0.stats, "unknown") or 0) == before + 1, what="counted")
    wait_until(lambda: not redis.xlen(P0.outcomes), what="gone")
