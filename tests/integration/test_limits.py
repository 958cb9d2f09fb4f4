"""Limits at the door, each with its own error: nothing is lost, and a full server can be emptied."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError, RedisError

from tests.conftest import RunningWorker, wait_until
from tests.support.engine import a_goal, container, create_group, drain, plan
from tests.support.messages import answer, publish, report, specs, work
from tests.support.stored import P0, QUEUE, dead, plans, state
from worker.process.container import Container
from worker.store import functions, keys, memory
from worker.store.memory import ServerMemory, share_of

FILLER = "filler"
CHUNK = b"x" * 100_000


def sweep(here: Container, redis: Redis, *plan_ids: str) -> None:
    """Look at these plans as if their timers had run out."""
    redis.zadd(P0.timers, dict.fromkeys(plan_ids, 1))
    here.context(0).engine.sweep(here.name)


def fill(redis: Redis, share: float, within: int = 20_000_000) -> None:
    """Leave the server with so much memory that it is full to this share, and will be."""
    wait_until(lambda: not redis.info("memory")["lazyfree_pending_objects"], what="what was deleted before is free")
    limit = int(redis.info("memory")["used_memory"] + within)
    redis.config_set("maxmemory", limit)
    while share_of(redis.info("memory")) < share:
        redis.rpush(FILLER, CHUNK)


def empty(redis: Redis) -> None:
    """Take away what filled the server, which frees it in the background."""
    before = redis.info("memory")["used_memory"]
    redis.delete(FILLER)
    wait_until(lambda: redis.info("memory")["used_memory"] < 0.7 * before, what="the memory is free")


@pytest.fixture
def roomy(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    """A server whose memory may be limited by the test; workers ask for its memory whenever it matters."""
    monkeypatch.setattr(memory, "LOOK_S", 0.0)
    monkeypatch.setattr(memory, "TIGHT_LOOK_S", 0.0)
    yield redis
    redis.config_set("maxmemory", 0)
    redis.delete(FILLER)


def test_a_queue_takes_no_more_specs_than_its_limit_and_the_rest_waits_in_its_plans(
    redis_url: str, redis: Redis
) -> None:
    with container(redis_url, max_queue=3) as here:
        wide = [{**step, "depends_on": []} for step in a_goal(6)["steps"]]
        first, second = plan(here, redis, a_goal(6, steps=wide, limits={"max_parallel": 2}), a_goal(2))
        assert redis.xlen(QUEUE) == 3
        (third,) = set(plan(here, redis, a_goal(2))) - {first, second}
        assert (redis.xlen(QUEUE), state(redis, third)) == (3, "READY")

        def all_done() -> bool:
            assert redis.xlen(QUEUE) <= 3
            work(redis)
            drain(here)
            sweep(here, redis, *plans(redis))
            return {state(redis, each) for each in plans(redis)} == {"COMPLETED"}

        wait_until(all_done, what="all plans are done")
        drain(here)
        counted: Any = redis.hget(P0.stats, "queue_full")
        assert int(counted) > 0


def test_a_tenant_has_no_more_live_plans_than_its_limit_and_its_goals_can_be_replayed(
    redis_url: str, redis: Redis
) -> None:
    with container(redis_url, max_tenant_plans=2) as here:
        plan(here, redis, *[a_goal(1, tenant="acme", goal_id=f"g{n}") for n in range(3)], a_goal(1, tenant="other"))
        assert len(plans(redis)) == 3
        (buried,) = dead(redis, keys.GOALS_DEAD)
        assert (buried["problem"]["code"], buried["problem"]["status"]) == ("tenant_full", 429)
        assert redis.hget(keys.GOALS_STATS, "dead:tenant_full") == b"1"
        assert not redis.exists(keys.goal_id("g2"))

        work(redis)
        drain(here)
        publish(redis, buried["data"])
        plan(here, redis)

        assert len(plans(redis)) == 4
        assert redis.hgetall(P0.tenants) == {b"acme": b"1"}


def test_a_goal_that_is_refused_for_lack_of_memory_is_dead_with_that_reason(redis_url: str, roomy: Redis) -> None:
    with container(redis_url) as here:
        fill(roomy, 0.85)

        assert plan(here, roomy, a_goal(1)) == []

        (buried,) = dead(roomy, keys.GOALS_DEAD)
        assert (buried["problem"]["code"], buried["problem"]["status"]) == ("out_of_memory", 507)


def test_a_nearly_full_server_starts_no_step_until_there_is_room_again(redis_url: str, roomy: Redis) -> None:
    with container(redis_url) as here:
        (plan_id,) = plan(here, roomy, a_goal(2))
        fill(roomy, 0.95)
        work(roomy)
        drain(here)
        assert specs(roomy) == []
        assert state(roomy, plan_id) == "EXECUTING"

        empty(roomy)
        sweep(here, roomy, plan_id)

        (spec,) = specs(roomy)
        assert spec["step_id"] == "s-1"


def test_a_full_server_can_be_emptied(redis_url: str, roomy: Redis) -> None:
    """Commit, acknowledgement, heartbeat and dead entries pass where the server takes nothing else any more."""
    with container(redis_url) as here:
        goals = [a_goal(1) for _ in range(20)]
        plan_ids = plan(here, roomy, *goals)
        for spec in specs(roomy):
            report(roomy, answer(spec))
        report(roomy, {"data": b"not json"})
        publish(roomy, b"not json either")
        publish(roomy, a_goal(1, goal_id="late"))
        create_group(here, P0.commands)
        (spec, *_) = specs(roomy)
        roomy.config_set("maxmemory", 1_000_000)
        with pytest.raises(OutOfMemoryError):
            roomy.set("more", 1)

        beat = functions.call(roomy, "FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl")
        drain(here)
        while here.goal_consumer.drain():
            pass
        here.context(0).engine.sweep(here.name)

        assert beat[0] == b"continue"
        assert {state(roomy, each) for each in plan_ids} == {"COMPLETED"}
        assert (roomy.xlen(P0.outcomes), roomy.xlen(keys.GOALS), specs(roomy)) == (0, 0, [])
        assert [each["problem"]["code"] for each in dead(roomy)] == ["invalid_json"]
        assert [each["problem"]["code"] for each in dead(roomy, keys.GOALS_DEAD)] == ["invalid_json", "out_of_memory"]


def test_memory_without_a_limit_is_never_full(redis: Redis) -> None:
    assert ServerMemory(redis).share == 0
    assert ServerMemory(redis).takes_goals


def test_a_look_at_the_memory_that_failed_is_made_again_at_once() -> None:
    full = {"maxmemory": 100, "used_memory": 95}
    here = ServerMemory(Mock(info=Mock(side_effect=[RedisError("away"), full])))
    with pytest.raises(RedisError):
        _ = here.takes_steps

    assert not here.takes_steps


def test_no_thread_decides_by_a_memory_of_which_the_first_look_has_no_reply_yet() -> None:
    asked, answers = threading.Event(), threading.Event()

    def info(_: str) -> dict[str, int]:
        asked.set()
        assert answers.wait(60)
        return {"maxmemory": 100, "used_memory": 95}

    here = ServerMemory(Mock(info=info))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: here.takes_steps)
        assert asked.wait(60)
        second = threads.submit(lambda: here.takes_steps)
        wait([second], 0.2)
        answers.set()

        assert [each.result(60) for each in (first, second)] == [False, False]


def test_a_goal_over_its_size_is_refused_before_it_is_parsed(redis_url: str, redis: Redis) -> None:
    with container(redis_url, max_goal_bytes=2048) as here:
        publish(redis, b"{" + b" " * 5000)
        plan(here, redis)

        (buried,) = dead(redis, keys.GOALS_DEAD)
        assert buried["problem"]["code"] == "goal_too_large"
        counted: Any = redis.hget(keys.GOALS_STATS, "dead")
        assert int(counted) == 1


@pytest.mark.outages
def test_a_worker_process_empties_a_full_server_and_goes_on_when_there_is_room(
    planner_worker: RunningWorker,
) -> None:
    redis = planner_worker.redis
    try:
        for _ in range(5):
            publish(redis, a_goal(2))
        wait_until(lambda: len(specs(redis)) == 5, what="the plans have started")
        planner_worker.process.send_signal(signal.SIGSTOP)
        for spec in specs(redis):
            report(redis, answer(spec))
        redis.config_set("maxmemory", 1_000_000)
        planner_worker.process.send_signal(signal.SIGCONT)
        wait_until(lambda: redis.xlen(P0.outcomes) == 0, what="all outcomes are applied")
        redis.config_set("maxmemory", 0)

        def all_done() -> bool:
            work(redis)
            return {state(redis, each) for each in plans(redis)} == {"COMPLETED"}

        wait_until(all_done, what="all plans are done")
        assert planner_worker.process.poll() is None
    finally:
        planner_worker.process.send_signal(signal.SIGCONT)
        redis.config_set("maxmemory", 0)
