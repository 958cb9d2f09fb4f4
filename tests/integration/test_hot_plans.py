"""Plans that a worker keeps between outcomes, on a real server: read once, and never gone on from when they are old."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.support.engine import ORDINARY, PLAIN, a_goal, calls_of, chain, container, drain, plan
from tests.support.messages import answer, specs
from tests.support.plain import check_part, held_on
from tests.support.stored import P0, QUEUE, plans, state, stats, waiting
from worker.process.container import Container
from worker.store import functions
from worker.store.hot_plans import DECODED, HotPlans
from worker.store.keys import CONTROLLERS, goal_id


def test_a_plan_is_read_with_its_first_outcome_and_not_with_the_next(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(5))
    told = []
    for _ in range(5):
        (spec,) = specs(redis)
        told.append(calls_of(redis, here, answer(spec)))

    assert [calls[functions.BEGIN] for calls in told] == [1, 0, 0, 0, 0]
    assert [(calls[functions.COMMIT], calls[PLAIN], calls[ORDINARY]) for calls in told] == [(1, 1, 0)] * 5
    assert state(redis, plan_id) == "COMPLETED"


@pytest.mark.parametrize("is_plain", [True, False])
def test_the_end_of_a_plan_is_told_whichever_way_it_was_decided(
    here: Container, redis: Redis, caplog: pytest.LogCaptureFixture, is_plain: bool
) -> None:
    caplog.set_level("INFO", "planner.plans")
    (plan_id,) = plan(here, redis, a_goal(1, goal_id="g-1"))
    (spec,) = specs(redis)

    calls = calls_of(redis, here, answer(spec, **({} if is_plain else {"nothing_to_change": ""})))

    assert (calls[PLAIN], calls[ORDINARY]) == (is_plain, not is_plain)
    assert redis.hget(goal_id("g-1"), "state") == b"COMPLETED"
    assert [(said.message, vars(said)["plan_id"]) for said in caplog.records] == [("plan ended", plan_id)]
    assert not redis.exists(P0.tenants)
    assert redis.zscore(P0.list_of("state:COMPLETED"), plan_id)


def test_plain_outcomes_of_many_plans_are_written_sixteen_at_a_time(here: Container, redis: Redis) -> None:
    made = plan(here, redis, *[a_goal(3, goal_id=f"g-{number}") for number in range(40)])
    calls_of(redis, here, *[answer(spec) for spec in specs(redis)])

    calls = calls_of(redis, here, *[answer(spec) for spec in specs(redis)])

    assert (calls[functions.BEGIN], calls[functions.COMMIT], calls[ORDINARY]) == (0, 3, 0)
    assert stats(redis)["applied"] == 2 * len(made)


def test_a_failure_is_decided_about_without_reading_the_plan_again(here: Container, redis: Redis) -> None:
    plan(here, redis, a_goal(3))
    drain_all(redis, here, 1)
    (spec,) = specs(redis)

    calls = calls_of(redis, here, answer(spec, success=False, failure_evidence={"category": "TYPE_ERROR"}))

    assert (calls[functions.BEGIN], calls[ORDINARY]) == (0, 1)


def drain_all(redis: Redis, here: Container, times: int) -> None:
    for _ in range(times):
        for spec in specs(redis):
            redis.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
        drain(here)


@pytest.mark.parametrize("is_plain", [True, False])
def test_workers_that_take_turns_with_a_plan_never_go_on_from_an_old_copy(
    redis_url: str, redis: Redis, is_plain: bool
) -> None:
    with container(redis_url) as one, container(redis_url) as other:
        made = plan(one, redis, *[a_goal(8, goal_id=f"g-{number}") for number in range(6)])
        told = {} if is_plain else {"nothing_to_change": ""}
        for turn in range(8):
            for spec in specs(redis):
                redis.xadd(P0.outcomes, answer(spec, **told))  # type: ignore[arg-type]
            drain((one, other)[turn % 2])

        assert {state(redis, plan_id) for plan_id in made} == {"COMPLETED"}
        assert stats(redis)["applied"] == 8 * len(made)
        assert waiting(redis) == (0, 0)


def test_what_an_operator_changed_meanwhile_is_seen_by_the_next_outcome(redis_url: str, redis: Redis) -> None:
    with container(redis_url) as one, container(redis_url) as other:
        (plan_id,) = plan(one, redis, a_goal(5))
        drain_all(redis, one, 2)
        order = {"command_id": "c-1", "command": "pause", "scope": "plan", "plan_id": plan_id}
        redis.xadd(P0.commands, {"data": codec.dumps({**order, "actor": "ada", "reason": "why"})})
        drain(other)

        drain_all(redis, one, 1)

        assert specs(redis) == []  # nothing more has started
        assert stats(redis)["applied"] == 3


def test_a_pause_of_everything_holds_plans_that_are_known_here(here: Container, redis: Redis) -> None:
    plan(here, redis, a_goal(5))
    drain_all(redis, here, 2)
    until = b'{"actor":"ada","reason":"why","command_id":"c-1","until":0}'
    functions.call(redis, "FCALL", functions.PAUSE_SCOPE, 1, P0.scopes, 0, "pause all", until)

    drain_all(redis, here, 1)

    assert specs(redis) == []


def test_after_an_error_nothing_is_known_any_more(
    here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan_id,) = plan(here, redis, a_goal(4))
    drain_all(redis, here, 1)
    redis.function_flush("SYNC")  # as a server that was replaced: the first call fails, and the library is loaded

    drain_all(redis, here, 3)

    assert state(redis, plan_id) == "COMPLETED"
    assert stats(redis)["applied"] == 4


def steps_of(edges: dict[int, list[int]]) -> list[dict[str, Any]]:
    """The steps of a plan by their numbers, each with those that it waits for."""
    return [
        {**step, "depends_on": [f"s-{before}" for before in edges[number]]}
        for number, step in enumerate(chain(len(edges)))
    ]


SHAPES: dict[str, tuple[dict[int, list[int]], int]] = {  # with how many outcomes read the plan
    "a chain": ({n: [n - 1] if n else [] for n in range(100)}, 0),
    "chains": ({n: [n - 4] if n >= 4 else [] for n in range(160)}, 0),
    "steps that are free, before one": ({n: [] if n < 150 else [*range(150)] for n in range(151)}, 0),
    "one step before many": ({n: [0] if n else [] for n in range(150)}, 4),  # their windows are not read ahead
    "layers": ({n: [*range(n // 5 * 5 - 5, n // 5 * 5)] if n >= 5 else [] for n in range(120)}, 0),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_outcomes_in_the_middle_of_a_large_plan_do_not_read_it(here: Container, redis: Redis, shape: str) -> None:
    edges, most_read = SHAPES[shape]
    limits = {"max_steps": len(edges), "max_parallel": 4, "tokens": 10**8, "patch_cycles": 10**5}
    (plan_id,) = plan(here, redis, {**a_goal(len(edges)), "steps": steps_of(edges), "limits": limits})
    hot, calls, most = here.context(0).store.hot, Counter[str](), 0
    while waiting_specs := specs(redis):
        calls += calls_of(redis, here, *[answer(spec) for spec in waiting_specs])
        if state(redis, plan_id) != "COMPLETED" and (copy := hot.lend(plan_id)):
            most = max(most, len(copy.steps))
            check_part(copy, held_on(redis, P0, plan_id))
            hot.keep(copy)

    assert state(redis, plan_id) == "COMPLETED"
    assert stats(redis)["applied"] == len(edges)
    assert calls[functions.BEGIN] <= most_read
    assert calls[functions.PREFETCH] < len(edges) / 8
    assert calls[ORDINARY] <= most_read + 2
    assert 0 < most < len(edges)


@pytest.mark.outages
def test_the_copy_of_a_large_plan_stays_small_while_the_plan_runs_through(here: Container, redis: Redis) -> None:
    count, chains = 800, 8
    edges = {n: [n - chains] if n >= chains else [] for n in range(count)}
    limits = {"max_steps": count, "max_parallel": chains, "tokens": 10**8, "patch_cycles": 10**5}
    (plan_id,) = plan(here, redis, {**a_goal(count), "steps": steps_of(edges), "limits": limits})
    hot, sizes = here.context(0).store.hot, list[tuple[int, int]]()
    while waiting_specs := specs(redis):
        for spec in waiting_specs:
            redis.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
        drain(here)
        if copy := hot.lend(plan_id):
            sizes.append((len(copy.steps), copy.size))
            hot.keep(copy)

    assert stats(redis)["applied"] == count
    assert len(sizes) >= count / chains - 2
    assert max(steps for steps, _ in sizes) <= 160  # two for each in flight, and what was read ahead
    assert max(size for _, size in sizes) < 160_000


def test_a_change_that_is_refused_takes_those_after_it_of_the_same_plan_along(here: Container, redis: Redis) -> None:
    edges = {n: [n - 4] if n >= 4 else [] for n in range(100)}
    limits = {"max_steps": 100, "max_parallel": 4, "tokens": 10**8, "patch_cycles": 10**5}
    (plan_id,) = plan(here, redis, {**a_goal(100), "steps": steps_of(edges), "limits": limits})
    drain_all(redis, here, 1)
    store = here.context(0).store
    object.__setattr__(store, "max_queue", 5)  # of which four are taken

    calls = calls_of(redis, here, *[answer(spec) for spec in specs(redis)])

    assert (calls[functions.COMMIT], calls[PLAIN], calls[ORDINARY]) == (2, 4, 1)
    assert stats(redis)["applied"] == 8
    assert stats(redis)["queue_full"] >= 1
    object.__setattr__(store, "max_queue", 1000)
    drain_all(redis, here, 25)
    while state(redis, plan_id) != "COMPLETED":  # steps that a full queue kept waiting
        here.context(0).engine.carry_on(plan_id)
        drain_all(redis, here, 1)
    assert stats(redis)["applied"] == 100


def test_workers_that_take_turns_with_a_large_plan_never_go_on_from_an_old_copy(redis_url: str, redis: Redis) -> None:
    with container(redis_url) as one, container(redis_url) as other:
        (plan_id,) = plan(one, redis, a_goal(90))
        for turn in range(90):
            (spec,) = specs(redis)
            redis.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
            drain((one, other)[turn // 3 % 2])

        assert state(redis, plan_id) == "COMPLETED"
        assert stats(redis)["applied"] == 90


def test_copies_are_bounded_in_number_and_in_bytes_and_the_least_used_go_first(here: Container, redis: Redis) -> None:
    made = plan(here, redis, *[a_goal(4, goal_id=f"g-{number}") for number in range(8)])
    store = here.context(0).store
    drain_all(redis, here, 1)
    size = sum(copy.size for copy in filter(None, map(store.hot.lend, plans(redis)))) / len(made)
    few, small = HotPlans(most_plans=3), HotPlans(most_bytes=int(3.5 * size * DECODED))
    for hot in (few, small):
        object.__setattr__(store, "hot", hot)
        for spec in specs(redis):  # one after the other, so that their order is known
            redis.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
            drain(here)

        assert len(hot) == 3
        kept = [one for one in plans(redis) if hot.lend(one)]
        last = [spec["plan_id"] for spec in specs(redis)][-3:]
        assert set(kept) == set(last)


def test_a_copy_is_never_kept_of_a_plan_with_a_day_budget(redis_url: str, redis: Redis) -> None:
    with container(redis_url, tenant_day_tokens=10**9) as here:
        plan(here, redis, a_goal(4))
        told = []
        for _ in range(3):
            (spec,) = specs(redis)
            told.append(calls_of(redis, here, answer(spec))[functions.BEGIN])

    assert told == [1, 1, 1]


def test_an_outcome_that_waits_for_a_reader_of_its_specs_is_applied_to_a_known_plan(
    here: Container, redis: Redis
) -> None:
    (plan_id,) = plan(here, redis, a_goal(3))
    for _ in range(3):
        found: Any = redis.xreadgroup(CONTROLLERS, "c", {QUEUE: ">"})
        ((_, ((_, fields),)),) = found
        redis.xadd(P0.outcomes, answer(codec.loads(fields[b"data"])))  # type: ignore[arg-type]
        drain(here)
        pending: Any = redis.xpending(QUEUE, CONTROLLERS)

    assert pending["pending"] == 0
    assert state(redis, plan_id) == "COMPLETED"


def test_what_is_known_of_plans_is_dropped_by_a_sweep_that_finds_itself_on_another_connection(
    here: Container, redis: Redis
) -> None:
    plan(here, redis, a_goal(4))
    drain_all(redis, here, 1)
    store = here.context(0).store
    assert len(store.hot) == 1
    here.client.connection_pool.disconnect()
    object.__setattr__(store.commits, "_compared_at", float("-inf"))

    here.context(0).engine.sweep("here")

    assert len(store.hot) == 0
    drain_all(redis, here, 2)
    assert stats(redis)["applied"] == 3


def test_no_copy_is_used_by_a_time_that_is_from_before_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    hot = HotPlans()
    hot.scopes = {}
    hot.note_time(1000)
    assert hot.is_usable
    wall = time.time()

    monkeypatch.setattr("worker.store.hot_plans.time.time", lambda: wall + 3600)

    assert not hot.is_usable
