"""Policies of operators on a real server: which plans are made and decided under which one, and by whom."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.support.engine import a_goal, container, drain, plan
from tests.support.messages import work
from tests.support.stored import P0, state, stats
from worker.doctor import plans as checks
from worker.doctor.finding import Site
from worker.doctor.stored import read
from worker.store import keys, policies
from worker.store.keys import GROUP
from worker.store.policies import Applied

SMALL = b"[most]\ntokens = 500_000\n"
SMALLER = b"[most]\ntokens = 400_000\n"


def head(redis: Redis, plan_id: str) -> dict[str, Any]:
    found: Any = redis.hget(P0.plan(plan_id).plan, "head")
    return dict(codec.loads(found))


def test_a_policy_that_is_applied_while_plans_run_is_for_new_plans_alone(redis: Redis, redis_url: str) -> None:
    with container(redis_url) as here:
        first = policies.apply(redis, SMALL, "ada")
        (before,) = plan(here, redis, a_goal(2))
        second = policies.apply(redis, SMALLER, "bob", "acme")
        (theirs,) = [one for one in plan(here, redis, a_goal(2, tenant="acme")) if one != before]
        assert policies.withdraw(redis, "ada")
        (after,) = [one for one in plan(here, redis, a_goal(2, goal="Another")) if one not in (before, theirs)]
        for _ in range(2):
            work(redis)
            drain(here)

    told = [(head(redis, one).get("policy"), head(redis, one)["limits"]["tokens"]) for one in (before, theirs, after)]
    assert told == [(first, 500_000), (second, 400_000), (None, 10**8)]
    assert {state(redis, one) for one in (before, theirs, after)} == {"COMPLETED"}
    applied = [each._replace(at="") for each in policies.history(redis)]
    assert applied == [
        Applied("", "ada", None, None),
        Applied("", "bob", "acme", second),
        Applied("", "ada", None, first),
    ]


def test_a_worker_without_the_policy_leaves_its_plan_and_another_decides_it(redis: Redis, redis_url: str) -> None:
    digest = policies.apply(redis, SMALL, "ada")
    with container(redis_url) as maker:
        (plan_id,) = plan(maker, redis, a_goal(1))
    redis.hdel(keys.POLICY_TEXTS, digest)
    work(redis)
    with container(redis_url) as lacking, container(redis_url) as other:
        for _ in range(12):  # more often than an entry may fail
            drain(lacking)
            lacking.context(0).engine.sweep(lacking.name)
            lacking.context(0).engine.recover(0)
        assert state(redis, plan_id) == "EXECUTING"
        assert stats(redis)["newer"] > 0
        assert "dead" not in stats(redis)
        stored = read(Site(redis, 1, 100, 1000), plan_id)
        assert stored is not None
        (told,) = [one for one in checks.examine(stored, now=5, retention_s=100) if one.check == "plan.policy"]
        assert digest in told.sentence

        assert policies.apply(redis, SMALL, "bob") == digest
        other.context(0).engine.recover(0)
        drain(other)

    assert state(redis, plan_id) == "COMPLETED"
    consumers: Any = redis.xinfo_consumers(P0.outcomes, GROUP)
    assert not any(one["pending"] for one in consumers)


@pytest.mark.parametrize("text", [b"format = 2", b"[most]\nwords = 5", None])
def test_a_goal_waits_among_the_dead_while_the_policy_in_force_cannot_be_read(
    text: bytes | None, redis: Redis, redis_url: str
) -> None:
    digest = policies.apply(redis, text or SMALL, "ada")
    if text is None:
        redis.hdel(keys.POLICY_TEXTS, digest)
    with container(redis_url) as here:
        assert plan(here, redis, a_goal(1)) == []

    found: Any = redis.xrange(keys.GOALS_DEAD)
    ((_, entry),) = found
    assert b"policy_unreadable" in entry[b"problem"]


def test_a_policy_is_read_once_by_a_worker_and_never_changed(redis: Redis) -> None:
    digest = policies.apply(redis, SMALL, "ada")
    known = policies.Policies(redis)
    found = known.find(digest)
    redis.hset(keys.POLICY_TEXTS, digest, SMALLER)  # by nobody of ours

    assert known.find(digest) is found
    assert policies.Policies(redis).find(digest) is None
    assert policies.Policies(redis).find(None) is known.find(None)
