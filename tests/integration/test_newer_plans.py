"""A plan that began under rules of a newer version: a worker leaves it as it is, and a newer one goes on with it."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.support.engine import a_goal, container, drain, plan
from tests.support.messages import answer, report, specs, work
from tests.support.next_version import NEXT_VERSION, next_version
from tests.support.stored import P0, state, stats
from worker.doctor import plans as checks
from worker.doctor.finding import Site
from worker.doctor.stored import read
from worker.engine.router import FOR_NEWER
from worker.process.container import Container
from worker.store.commits import Lost
from worker.store.keys import GROUP


def hash_of(redis: Redis, plan_id: str) -> dict[bytes, bytes]:
    """The plan's hash, without the lock."""
    found: Any = redis.hgetall(P0.plan(plan_id).plan)
    return {name: value for name, value in found.items() if name != b"lock"}


def held(redis: Redis, stream: str = P0.outcomes) -> int:
    """How many entries wait for newer workers."""
    consumers: Any = redis.xinfo_consumers(stream, GROUP)
    return sum(one["pending"] for one in consumers if one["name"] == FOR_NEWER.encode())


def pause(redis: Redis, plan_id: str) -> None:
    order = {"command_id": "o-1", "command": "pause", "scope": "plan", "plan_id": plan_id, "actor": "ada", "reason": ""}
    redis.xadd(P0.commands, {"data": codec.dumps(order)})


def make_due(redis: Redis, plan_id: str) -> None:
    redis.zadd(P0.timers, {plan_id: 1})


@pytest.fixture
def left(redis_url: str, redis: Redis) -> Any:
    """A worker, and a plan of the next version with an outcome, an order and a timer that has run out."""
    with container(redis_url) as here:
        with next_version():
            (plan_id,) = plan(here, redis, a_goal(2))
        before = hash_of(redis, plan_id)
        work(redis)
        pause(redis, plan_id)
        make_due(redis, plan_id)
        yield here, plan_id, before


def look(here: Container) -> None:
    """Do all that a worker does of itself."""
    engine = here.context(0).engine
    drain(here)
    engine.sweep(here.name)
    engine.recover(0)


def test_a_worker_leaves_a_newer_plan_as_it_is_and_goes_on_with_others(left: Any, redis: Redis) -> None:
    here, plan_id, before = left
    for _ in range(12):  # more often than an entry may fail
        look(here)

    other = next(one for one in plan(here, redis, a_goal(1, goal="Another")) if one != plan_id)
    work(redis)
    drain(here)

    assert hash_of(redis, plan_id) == before
    assert state(redis, other) == "COMPLETED"
    assert (held(redis), held(redis, P0.commands)) == (1, 1)
    assert "dead" not in stats(redis)
    assert stats(redis)["newer"] > 0


def test_a_newer_worker_takes_over_what_was_left(left: Any, redis: Redis, redis_url: str) -> None:
    here, plan_id, _ = left
    look(here)

    with next_version(), container(redis_url) as newer:
        look(newer)

    assert (held(redis), held(redis, P0.commands)) == (0, 0)
    assert codec.loads(hash_of(redis, plan_id)[b"live"])["counts"]["DONE"] == 1
    assert codec.loads(hash_of(redis, plan_id)[b"live"])["paused"]


def test_a_newer_worker_decides_each_plan_by_the_rules_that_it_began_with(redis: Redis, redis_url: str) -> None:
    with container(redis_url) as here:
        (before,) = plan(here, redis, a_goal(2, limits={"tokens": 120_000}))
        with next_version(), container(redis_url) as newer:
            new = next(one for one in plan(newer, redis, a_goal(2, limits={"tokens": 120_000})) if one != before)
            for spec in specs(redis):
                report(redis, answer(spec, metrics={"tokens_used": 110_000}))
            drain(newer)

    assert (state(redis, before), state(redis, new)) == ("EXECUTING", "HALTED")


def test_the_sweep_of_an_older_worker_keeps_nothing_from_a_newer_one(left: Any, redis: Redis, redis_url: str) -> None:
    here, plan_id, _ = left
    here.context(0).engine.sweep(here.name)

    assert redis.zscore(P0.timers, plan_id) > 1  # type: ignore[operator]
    make_due(redis, plan_id)
    with next_version(), container(redis_url) as newer:
        newer.context(0).engine.sweep(newer.name)

    assert int(redis.zscore(P0.timers, plan_id) or 0) > 1


def test_a_newer_plan_that_lost_commits_is_paused_by_any_worker(
    left: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, plan_id, _ = left
    context = here.context(0)
    monkeypatch.setattr(context.commits, "compare", lambda: Lost(0, [plan_id]))
    context.engine.catch_up()

    assert "needs_reconcile" in codec.loads(hash_of(redis, plan_id)[b"live"])["paused"]


def test_the_doctor_names_the_version(left: Any, redis: Redis) -> None:
    _, plan_id, _ = left
    found = read(Site(redis, 1, 100, 1000), plan_id)
    assert found is not None

    (told,) = [one for one in checks.examine(found, now=5, retention_s=100) if one.check == "plan.newer"]

    assert f"policy version {NEXT_VERSION}" in told.sentence
