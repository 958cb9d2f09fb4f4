"""Everybody gets a verdict: the record of a goal, from what cannot be read to the end of its plan, on a real server."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis
from redis.client import Pipeline

from schemas import codec
from schemas.times import rfc3339
from tasks.base.errors import Overtaken
from tests.conftest import wait_until
from tests.support.engine import a_goal, chain, container, drain, plan
from tests.support.messages import publish, specs, work
from tests.support.stored import P0, dead, plans, state
from worker.engine.commit_results import CommitResults
from worker.process.container import Container
from worker.store import goal_record, keys, queries
from worker.store.keys import GROUP, goal_id

BAD = {"goal": "Do it", "goal_id": "ci-1", "limits": {"max_steps": "many"}, "steps": chain(1)}
GOOD = {**a_goal(1), "goal_id": "ci-1"}


class Killed(BaseException):
    """The worker is no more."""


def die(*_: object) -> None:
    raise Killed


def record(redis: Redis, name: str = "ci-1", tenant: str = "default") -> dict[str, str]:
    found: Any = redis.hgetall(goal_id(name, tenant))
    return {field.decode(): value.decode() for field, value in found.items()}


def finish(here: Container, redis: Redis) -> None:
    while work(redis):
        drain(here)


# --- goals that cannot be read ---


@pytest.mark.parametrize("tenant", ["default", "acme & sons:*"])
def test_a_goal_that_does_not_fit_is_rejected_with_its_errors_and_dead(
    here: Container, redis: Redis, tenant: str
) -> None:
    plan(here, redis, {**BAD, "tenant": tenant})

    found = record(redis, tenant=tenant)
    assert (found["verdict"], found["reason"]) == ("REJECTED", "invalid_message")
    assert [error["pointer"] for error in codec.loads(found["errors"])] == ["/limits/max_steps"]
    assert found.keys() == {"verdict", "reason", "errors"}
    assert 0 < redis.ttl(goal_id("ci-1", tenant)) <= 30 * 86_400
    (buried,) = dead(redis, keys.GOALS_DEAD)
    assert buried["problem"]["code"] == "invalid_message"


def test_the_corrected_goal_takes_the_place_of_one_that_did_not_fit(here: Container, redis: Redis) -> None:
    plan(here, redis, BAD)

    (plan_id,) = plan(here, redis, GOOD)
    plan(here, redis, GOOD)

    found = record(redis)
    assert (found["verdict"], found["plan_id"]) == ("PLANNED", plan_id)
    assert "errors" not in found
    assert plans(redis) == [plan_id]


def test_another_mistake_stands_in_the_dead_entry_and_the_record_stays(here: Container, redis: Redis) -> None:
    plan(here, redis, BAD)
    before = record(redis)

    plan(here, redis, {**BAD, "limits": {"tokens": "all"}})

    assert record(redis) == before
    assert [error["pointer"] for error in dead(redis, keys.GOALS_DEAD)[-1]["problem"]["errors"]] == ["/limits/tokens"]


def test_a_goal_that_does_not_fit_leaves_the_record_of_another_alone(here: Container, redis: Redis) -> None:
    plan(here, redis, GOOD)
    before = record(redis)

    plan(here, redis, BAD)

    assert record(redis) == before
    assert len(dead(redis, keys.GOALS_DEAD)) == 1


@pytest.mark.parametrize(
    ("message", "beside", "name"),
    [
        (b"no json", {"id": "event-1"}, "event-1"),
        (codec.dumps({"goal_id": "x", "tenant": 5}), {}, "x"),
        (codec.dumps({"goal_id": "x", "goal": 7}), {"id": "event-1"}, "x"),
    ],
)
def test_whatever_can_be_named_gets_its_verdict(
    here: Container, redis: Redis, message: bytes, beside: dict[str, str], name: str
) -> None:
    publish(redis, message, **beside)
    plan(here, redis)

    assert record(redis, name)["verdict"] == "REJECTED"


@pytest.mark.parametrize(
    "message",
    [b"[]", b"{}", b'{"goal_id":["x"]}', b'{"goal_id":"a b"}', codec.dumps({"goal_id": "x" * 201}), b"no json"],
)
def test_what_cannot_be_named_is_dead_and_nothing_else(here: Container, redis: Redis, message: bytes) -> None:
    publish(redis, message)
    plan(here, redis)

    assert len(dead(redis, keys.GOALS_DEAD)) == 1
    assert list(redis.scan_iter("{planner:goals}:id:*")) == []


def test_on_a_full_server_a_goal_that_does_not_fit_is_only_dead(here: Container, redis: Redis) -> None:
    publish(redis, BAD)
    redis.config_set("maxmemory", 1)
    try:
        plan(here, redis)
    finally:
        redis.config_set("maxmemory", 0)

    assert record(redis) == {}
    assert len(dead(redis, keys.GOALS_DEAD)) == 1


# --- tenants ---


def test_two_tenants_with_one_goal_id_have_a_plan_each(here: Container, redis: Redis) -> None:
    goals = [GOOD, {**GOOD, "tenant": "acme"}, {**GOOD, "tenant": "initech"}]

    plan(here, redis, *goals)
    made = plan(here, redis, *goals)

    found = [record(redis, tenant=tenant)["plan_id"] for tenant in ("default", "acme", "initech")]
    assert sorted(found) == sorted(made)
    assert len(set(found)) == 3
    assert dead(redis, keys.GOALS_DEAD) == []


def test_the_name_of_a_tenant_is_percent_encoded(here: Container, redis: Redis) -> None:
    plan(here, redis, {**GOOD, "tenant": "a:id:b/ü*"})

    (key,) = redis.scan_iter("{planner:goals}:*id:ci-1")
    assert key.decode() == "{planner:goals}:of:a%3Aid%3Ab%2F%C3%BC%2A:id:ci-1"


# --- the end of a plan ---


def test_a_completed_plan_is_in_its_goals_record_which_goes_with_the_plan(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, {**GOOD, "tenant": "acme"})
    assert "state" not in record(redis, tenant="acme")
    finish(here, redis)

    found, key = record(redis, tenant="acme"), goal_id("ci-1", "acme")
    view = queries.plan(redis, 1, plan_id)
    assert view
    assert (found["state"], found["ended_at"], found["verdict"]) == ("COMPLETED", view.ended_at, "PLANNED")
    assert not {"halt_rule", "halt_reason"} & found.keys()
    assert abs(redis.ttl(key) - redis.ttl(P0.plan(plan_id).plan)) <= 2


def test_a_halted_plan_says_in_the_record_which_rule_it_was(here: Container, redis: Redis) -> None:
    plan(here, redis, GOOD)
    (spec,) = specs(redis)
    outcome = {"step_id": "s-0", "plan_id": spec["plan_id"], "success": True, "touched_files": ["etc/passwd"]}
    redis.xadd(P0.outcomes, {"data": codec.dumps(outcome)})
    drain(here)

    found = record(redis)
    assert (found["state"], found["halt_rule"]) == ("HALTED", "security")
    assert found["halt_reason"]


def test_a_goal_that_is_rejected_has_its_end_at_once(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, {**GOOD, "steps": []})

    found = record(redis)
    assert (found["verdict"], found["state"], found["halt_rule"]) == ("REJECTED", "REJECTED", "rejected")
    assert found["halt_reason"] == found["reason"]
    seconds: Any = redis.time()
    assert float(redis.zscore(P0.timers, plan_id) or 0) > 1000 * (seconds[0] + 86_400)


def test_the_record_of_a_plan_that_goes_on_outlives_the_retention(redis: Redis, redis_url: str) -> None:
    with container(redis_url, retention_days=1) as here:
        (plan_id,) = plan(here, redis, GOOD, GOOD)
        assert redis.ttl(goal_id("ci-1")) > 300 * 86_400
        finish(here, redis)

    assert redis.ttl(goal_id("ci-1")) <= 86_400
    assert redis.ttl(P0.plan(plan_id).plan) <= 86_400


def test_an_end_that_a_killed_worker_told_nobody_is_told_by_the_next_sweep(
    here: Container, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan_id,) = plan(here, redis, GOOD)
    work(redis)
    with monkeypatch.context() as broken:
        broken.setattr(CommitResults, "take", die)
        with pytest.raises(Killed):
            here.context(0).engine.drain()
    assert (state(redis, plan_id), record(redis).get("state")) == ("COMPLETED", None)
    seconds: Any = redis.time()
    ended = 1000 * seconds[0]
    assert abs(float(redis.zscore(P0.timers, plan_id) or 0) - ended) < 10_000

    redis.zadd(P0.timers, {plan_id: 1})
    with container(redis_url) as another:
        another.context(0).engine.sweep("another")

    found = record(redis)
    assert found["state"] == "COMPLETED"
    assert abs(redis.ttl(goal_id("ci-1")) - redis.ttl(P0.plan(plan_id).plan)) <= 2
    assert float(redis.zscore(P0.timers, plan_id) or 0) > ended + 86_400_000


@pytest.mark.parametrize("stands", ["nothing", "another plan", "another type"])
def test_an_end_is_told_only_to_the_record_of_its_own_goal(here: Container, redis: Redis, stands: str) -> None:
    (plan_id,) = plan(here, redis, GOOD)
    key = goal_id("ci-1")
    redis.delete(key)
    if stands == "another plan":
        redis.hset(key, mapping={"plan_id": "plan_00-1", "verdict": "PLANNED"})
    if stands == "another type":
        redis.set(key, "x")
    before = redis.dump(key)

    finish(here, redis)

    assert state(redis, plan_id) == "COMPLETED"
    assert redis.dump(key) == before
    pending: Any = redis.xpending(P0.outcomes, GROUP)
    assert pending["pending"] == 0


def test_fields_that_nobody_knows_are_told_once_with_the_nearest_name(here: Container, redis: Redis) -> None:
    steps = [{**step, "alowed_files": ["x"]} for step in chain(1)]
    goal = {**GOOD, "steps": steps, "max_tries": 3, "context": {"Base_SHA": "9f1c2d4", "a/b": 1}, "drafter_": "none"}
    plan(here, redis, goal, goal)

    events: Any = redis.xrange(P0.events)
    told = [fields for _, fields in events if fields[b"type"] == b"dev.planner.goal.unknown_fields.v1"]
    (data,) = [codec.loads(fields[b"data"]) for fields in told]
    assert data["goal_id"] == "ci-1"
    assert dict(zip(data["pointers"], data["nearest"], strict=True)) == {
        "/max_tries": None,
        "/drafter_": "drafter",
        "/context/Base_SHA": "base_sha",
        "/context/a~1b": None,
        "/steps/0/alowed_files": "allowed_files",
    }
    assert record(redis)["verdict"] == "PLANNED"


def test_a_goal_of_known_fields_has_no_such_event(here: Container, redis: Redis) -> None:
    plan(here, redis, GOOD)

    told: Any = redis.xrange(P0.events)
    assert not [1 for _, fields in told if b"unknown_fields" in fields[b"type"]]


def test_times_are_written_as_everywhere(here: Container, redis: Redis) -> None:
    plan(here, redis, GOOD)
    finish(here, redis)

    assert record(redis)["ended_at"].endswith("Z")
    assert len(record(redis)["ended_at"]) == len(rfc3339(0))


def test_the_record_is_claimed_once_however_many_come(here: Container, redis: Redis) -> None:
    key = goal_id("g")

    first = goal_record.claim(here.client, key, "plan_1", "d", 60)

    assert first == ("plan_1", "PENDING", "d")
    assert goal_record.claim(here.client, key, "plan_2", "e", 60) == first
    wait_until(lambda: redis.ttl(key) <= 60)


def test_of_several_that_find_a_dead_entry_in_the_record_one_drafts(
    here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = goal_id("g")
    goal_record.claim(here.client, key, "plan_1", "d", 60)
    sent: Any = [redis.xadd(keys.GOALS, {"data": b"{}"}) for _ in range(3)]
    dead, one, two = sent
    assert goal_record.hold(here.client, key, keys.GOALS, dead)
    redis.xdel(keys.GOALS, dead)
    multi, others = Pipeline.multi, [one]

    def begin_when_another_was_faster(pipeline: Pipeline) -> None:
        while others:
            redis.hset(key, "entry", others.pop())
        multi(pipeline)

    monkeypatch.setattr(Pipeline, "multi", begin_when_another_was_faster)

    assert not goal_record.hold(here.client, key, keys.GOALS, two)
    assert goal_record.hold(here.client, key, keys.GOALS, one)
    assert redis.hget(key, "entry") == one


def test_no_record_is_made_where_it_has_just_expired(here: Container, redis: Redis) -> None:
    with pytest.raises(Overtaken):
        goal_record.hold(here.client, goal_id("g"), keys.GOALS, b"1-0")

    assert not redis.exists(goal_id("g"))
