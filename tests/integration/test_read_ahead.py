"""Where many outcomes come the next are read before these are committed; each is applied once, whatever fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.support.engine import a_goal, drain, plan
from tests.support.messages import answer, report, specs
from tests.support.stored import P0, state, stats, waiting
from worker.engine import engine
from worker.engine.decisions import Decisions
from worker.process.container import Container
from worker.store import functions
from worker.store.plans import PlanTalk, Reconnected
from worker.streams.inbox import BATCH_ENTRIES

PLANS = 150  # outcomes of the first reading, of the one ahead and of a last one


@pytest.fixture
def made(here: Container, redis: Redis) -> list[str]:
    """Plans of one step whose outcomes wait, and between them an entry that cannot be read."""
    made = plan(here, redis, *[a_goal(1, goal_id=f"g-{number}") for number in range(PLANS)])
    for number, spec in enumerate(specs(redis)):
        report(redis, answer(spec))
        if number == PLANS // 2:
            report(redis, {"data": b"not json"})
    return made


def assert_each_was_applied_once(redis: Redis, made: list[str]) -> None:
    assert {state(redis, plan_id) for plan_id in made} == {"COMPLETED"}
    assert stats(redis)["applied"] == PLANS
    assert not {"late", "duplicate", "refused"} & stats(redis).keys()
    assert redis.xlen(P0.dead) == 1
    assert waiting(redis) == (0, 0)


def orders_of(redis: Redis, work: Callable[[], Any]) -> list[str]:
    """Tell in which order new outcomes were read and outcomes were committed while `work` was done."""
    with redis.monitor() as monitor:
        work()
        redis.ping()
        seen: list[str] = []
        for said in monitor.listen():
            if said["command"] == "PING":
                return seen
            if said["command"].startswith(f"FCALL {functions.COMMIT}"):
                seen.append("commit")
            elif said["command"].endswith(f"STREAMS {P0.outcomes} >"):
                seen.append("read")
    raise AssertionError  # not reached


def test_the_next_outcomes_are_asked_for_before_the_first_commit_of_these(
    here: Container, redis: Redis, made: list[str]
) -> None:
    orders = orders_of(redis, lambda: drain(here))

    assert orders[:3] == ["read", "read", "commit"]
    assert_each_was_applied_once(redis, made)


def test_few_outcomes_are_committed_before_more_are_read(here: Container, redis: Redis) -> None:
    plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    report(redis, answer(spec))

    assert orders_of(redis, lambda: drain(here))[:3] == ["read", "commit", "read"]


def test_what_a_drain_read_ahead_is_applied_by_it_when_its_time_is_over(
    here: Container, redis: Redis, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "DRAIN_S", 0.0)
    orders = orders_of(redis, here.context(0).engine.drain)

    assert orders.count("read") == 2
    assert_each_was_applied_once(redis, made)


def test_of_a_flood_for_one_plan_no_more_is_held_than_two_batches(
    here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    flood = 10 * BATCH_ENTRIES
    pipeline = redis.pipeline(transaction=False)
    for _ in range(flood):
        pipeline.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
    pipeline.execute()
    held, asked = [], 0
    make = Decisions.make

    def count(self: Decisions, talk: PlanTalk, works: Any, question: Sequence[Any], **options: Any) -> Any:
        nonlocal asked
        held.append(sum(len(work.reports) for _, work in works))
        asked += len(question)
        return make(self, talk, works, question, **options)

    monkeypatch.setattr(Decisions, "make", count)

    drain(here)

    assert asked > 1  # else nothing was read ahead
    assert max(held) <= 2 * BATCH_ENTRIES
    assert stats(redis)["applied"] == 1
    assert stats(redis)["duplicate"] == flood - 1
    assert waiting(redis) == (0, 0)


@pytest.mark.parametrize("error", [Reconnected, RedisConnectionError])
def test_what_was_read_ahead_is_applied_once_when_the_answers_to_the_commits_are_lost(
    here: Container, redis: Redis, made: list[str], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    asked = []
    verdicts = PlanTalk.verdicts

    def lose(talk: PlanTalk) -> Any:
        found = verdicts(talk)
        asked.append(1)
        if len(asked) == 1:
            raise error
        return found

    monkeypatch.setattr(PlanTalk, "verdicts", lose)
    if error is RedisConnectionError:
        with pytest.raises(error):
            drain(here)

    drain(here)

    assert {state(redis, plan_id) for plan_id in made} == {"COMPLETED"}
    assert waiting(redis) == (0, 0)
    assert not {"late", "refused"} & stats(redis).keys()


def test_a_queue_that_vanished_is_read_again_in_its_turn(here: Container, redis: Redis, made: list[str]) -> None:
    router = here.context(0).router
    router.read(None)
    redis.xgroup_destroy(P0.outcomes, "planner")

    drain(here)

    assert {state(redis, plan_id) for plan_id in made} == {"COMPLETED"}
    assert redis.xlen(P0.outcomes) == 0
