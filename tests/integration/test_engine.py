"""The engine and the decomposer on a real server, in this process: nothing lost, nothing twice, nothing stops them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from schemas import codec
from schemas.goal import MAX_GOAL_BYTES
from schemas.outcome import MAX_OUTPUT_BYTES
from tasks.handlers import goals
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Draft
from tests.conftest import wait_until
from tests.support.engine import a_goal, chain, container, drain, plan
from tests.support.messages import answer, publish, report, specs, work
from tests.support.stored import P0, QUEUE, dead, moves, plans, state, stats, waiting
from worker.engine import router
from worker.engine.admission import Admission, fresh_plan_id
from worker.engine.goal_batch import GoalBatch
from worker.engine.plan_creation import PlanCreation
from worker.process.container import Container
from worker.store import functions, goal_record, keys
from worker.store.keys import CONTROLLERS, GROUP, Partition
from worker.store.plans import PlanTalk, Write
from worker.streams.decode import read_goal
from worker.streams.inbox import Inbox, StreamEntry

NOBODY = f"plan_00-{0:032x}"


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


STEP = b'{"step_id":"s-0","success":true,"plan_id":"%s"' % NOBODY.encode()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"data": b"not json"}, "invalid_json"),
        ({"data": b""}, "invalid_json"),
        ({"text": b"{}"}, "no_data"),
        ({"data": b"[]"}, "invalid_message"),
        ({"data": b"{}"}, "invalid_message"),
        ({"data": b'{"step_id":1,"success":"maybe"}'}, "invalid_message"),
        ({"data": b'{"step_id":"s-0","success":true}'}, "missing_plan_id"),
        ({"data": b'{"step_id":"s-0","success":true}', "plan_id": "plan_x"}, "missing_plan_id"),
        ({"data": STEP + b',"attempt":0}'}, "invalid_message"),
        ({"data": STEP + b',"attempt":1.5}'}, "invalid_message"),
        ({"data": STEP + b',"metrics":{"tokens_used":"many"}}'}, "invalid_message"),
        ({"data": STEP + b',"output":"\xff\xfe"}'}, "invalid_json"),
        ({"data": STEP + b',"output":NaN}'}, "invalid_json"),
        ({"data": STEP + b',"output":-Infinity}'}, "invalid_json"),
        ({"data": STEP + b',"output":"\\ud800"}'}, "invalid_json"),
        ({"data": STEP + b',"output":' + nested(10_000) + b"}"}, "invalid_json"),
        ({"data": b'{"a":' * 100_000}, "outcome_too_large"),
        ({"data": STEP + b',"output":"' + b"x" * 2**20 + b'"}'}, "outcome_too_large"),
        ({"data": STEP + b',"output":"' + b"x" * MAX_OUTPUT_BYTES + b'"}'}, "output_too_large"),
    ],
)
def test_an_outcome_that_cannot_be_read_is_dead_with_its_reason(
    here: Container, redis: Redis, fields: dict[str, Any], code: str
) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    entry = report(redis, fields)
    work(redis)

    drain(here)

    (buried,) = dead(redis)
    assert buried["problem"]["code"] == code
    assert buried["problem"]["detail"]
    assert (stats(redis)["dead"], stats(redis)[f"dead:{code}"]) == (1, 1)
    assert (buried["stream"], buried["entry"]) == (P0.outcomes, entry)
    assert len(buried["data"]) <= 65_536
    assert state(redis, plan_id) == "COMPLETED"  # and the engine went on
    assert waiting(redis) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"data": STEP + b"}"}, "unknown"),
        ({"data": b'{"step_id":"s-0","success":true}', "plan_id": NOBODY}, "unknown"),
        ({"data": STEP + b',"output":' + nested(100) + b"}"}, "unknown"),
        ({"data": STEP + b',"new_field":{"a":1}}'}, "unknown"),
        ({"data": STEP + b',"output":"' + b"x" * (MAX_OUTPUT_BYTES - 2) + b'"}'}, "unknown"),
    ],
)
def test_an_outcome_for_nobody_has_a_verdict_and_writes_nothing_else(
    here: Container, redis: Redis, fields: dict[str, Any], verdict: str
) -> None:
    report(redis, fields)

    drain(here)

    assert stats(redis)[verdict] == 1
    assert dead(redis) == []
    assert waiting(redis) == (0, 0)
    assert plans(redis) == []


POISON = [
    pytest.param({"attempt": "9" * 5000}, {}, id="attempt of 5000 digits beside it"),
    pytest.param({}, {"output": 10**30, "pad": "x" * MAX_OUTPUT_BYTES}, id="large outcome with a large integer"),
]


@pytest.mark.parametrize(("fields", "said"), POISON)
def test_no_entry_stops_the_partition(here: Container, redis: Redis, fields: Any, said: Any) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    body = {"step_id": "s-0", "success": True, "plan_id": NOBODY, **said}
    report(redis, {"data": json.dumps(body), **fields})
    work(redis)

    drain(here)

    assert state(redis, plan_id) == "COMPLETED"


@pytest.mark.parametrize("number", [b"-7", b"1e400", b"9" * 5000, b"0.5", b"1" + b"0" * 30])
def test_no_outcome_is_refused_for_the_value_of_a_number(here: Container, redis: Redis, number: bytes) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    more: Any = {"evaluation": {"f1": 0}, "transcript": {"path": "a.jsonl", "digest": "sha256:1"}}
    figures = ("tokens_used", "tool_calls", "input_tokens", "output_tokens", "cached_tokens", "cost_usd")
    more |= {"metrics": dict.fromkeys(figures, 0)}
    said = codec.dumps({**codec.loads(answer(specs(redis)[0])["data"]), **more})
    report(redis, {"data": said.replace(b'":0', b'":' + number)[:-1] + b',"future":' + number + b"}"})

    drain(here)

    assert (state(redis, plan_id), dead(redis)) == ("COMPLETED", [])
    assert moves(redis, plan_id)  # its log can be read
    spent = codec.loads(redis.hget(P0.plan(plan_id).plan, "live"))["spent"]["tokens"]  # type: ignore[arg-type]
    assert 0 <= spent <= 10**8


def test_an_attempt_of_any_size_has_a_verdict(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    said = {"step_id": "s-0", "success": True, "plan_id": plan_id}
    report(redis, {"data": codec.dumps(said), "attempt": "9" * 30})

    drain(here)

    assert waiting(redis) == (0, 0)


def test_an_attempt_zero_beside_the_message_is_not_applied_twice(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    failed = codec.dumps({"step_id": "s-0", "success": False, "plan_id": plan_id})
    for _ in range(2):
        report(redis, {"data": failed, "attempt": "0"})
        drain(here)

    assert stats(redis).get("applied", 0) <= 1


def test_an_entry_that_cannot_be_decided_does_not_take_its_neighbours_along(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    redis.xadd(
        P0.outcomes, {"data": codec.dumps({"step_id": "s-0", "success": True, "plan_id": plan_id}), "attempt": "9" * 30}
    )
    report(redis, answer(spec))

    drain(here)
    for _ in range(6):
        here.context(0).engine.recover(0)

    assert state(redis, plan_id) == "COMPLETED"


def test_an_entry_for_another_partition_is_forwarded(redis_url: str, redis: Redis) -> None:
    with container(redis_url, partitions=4) as here:
        fields = {b"data": b'{"step_id":"s-0","success":true}', b"plan_id": b"plan_07-%032x" % 0, b"attempt": b"1"}
        report(redis, fields)

        drain(here)

        assert redis.xrange(Partition(3).outcomes, count=1)[0][1] == fields  # type: ignore[index]
        assert waiting(redis) == (0, 0)
        assert stats(redis)["forwarded"] == 1


@pytest.mark.parametrize(
    ("goal", "code"),
    [
        (b"not json", "invalid_json"),
        (b"[1]", "invalid_message"),
        (b"{}", "invalid_message"),
        (b'{"goal":""}', "invalid_message"),
        (b'{"goal":"x","kind":"poem"}', "invalid_message"),
        (b'{"goal":"\xff"}', "invalid_json"),
        (b'{"goal":"\\ud800"}', "invalid_json"),
        (b'{"goal":"x","a":NaN}', "invalid_json"),
        (b'{"goal":"x","a":' + nested(5000) + b"}", "invalid_json"),
        (b'{"goal":"x","a":"' + b"x" * 2**20 + b'"}', "goal_too_large"),
        (b'{"goal":"x","a":"' + b"x" * MAX_GOAL_BYTES + b'"}', "goal_too_large"),
    ],
)
def test_a_goal_that_cannot_be_read_is_dead_with_its_reason(
    here: Container, redis: Redis, goal: bytes, code: str
) -> None:
    publish(redis, goal)

    plan_ids = plan(here, redis, a_goal(1))

    (buried,) = dead(redis, keys.GOALS_DEAD)
    assert buried["problem"]["code"] == code
    assert len(plan_ids) == 1
    assert waiting(redis, keys.GOALS) == (0, 0)


def test_a_goal_nested_deeper_than_can_be_written_is_dead_at_once(here: Container, redis: Redis) -> None:
    publish(redis, b'{"goal":"x","a":' + nested(500) + b"}")

    plan(here, redis)

    assert waiting(redis, keys.GOALS) == (0, 0)


def test_a_goal_whose_entry_has_no_data_is_dead(here: Container, redis: Redis) -> None:
    redis.xadd(keys.GOALS, {"goal": "x"})

    plan(here, redis)

    assert [buried["problem"]["code"] for buried in dead(redis, keys.GOALS_DEAD)] == ["no_data"]


def test_fifty_plans_are_completed_each_step_once_and_the_streams_are_empty(here: Container, redis: Redis) -> None:
    plan_ids = plan(here, redis, *[a_goal(5) for _ in range(50)])

    while work(redis):
        drain(here)

    assert Counter(state(redis, plan_id) for plan_id in plan_ids) == {"COMPLETED": 50}
    for plan_id in plan_ids:
        done = [step for step, _, after in moves(redis, plan_id) if after == "DONE"]
        assert sorted(done) == [f"s-{n}" for n in range(5)]
    assert stats(redis)["applied"] == 250
    assert (waiting(redis), waiting(redis, QUEUE, CONTROLLERS), waiting(redis, keys.GOALS)) == ((0, 0),) * 3
    soon = 1000 * (redis.time()[0] + 86_400)  # beyond that: when the ended plans are forgotten
    assert redis.zcount(P0.timers, "-inf", soon) == 0
    assert list(redis.scan_iter("planner:{0}:lease:*")) == []
    assert dead(redis) == []


def test_two_engines_on_one_partition_lose_nothing_and_do_nothing_twice(redis_url: str, redis: Redis) -> None:
    with container(redis_url) as one, container(redis_url) as two:
        plan_ids = plan(one, redis, *[a_goal(8, limits={"max_parallel": 4}, steps=_free(8)) for _ in range(20)])
        over = threading.Event()
        failures: list[BaseException] = []

        def engine(here: Container) -> None:
            try:
                while not over.is_set():
                    here.context(0).engine.drain()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=engine, args=(here,)) for here in (one, two)]
        for thread in threads:
            thread.start()
        wait_until(lambda: not (work(redis, 7) + len(specs(redis)) + waiting(redis)[0]), what="all is done")
        over.set()
        for thread in threads:
            thread.join()

    assert failures == []
    assert Counter(state(redis, plan_id) for plan_id in plan_ids) == {"COMPLETED": 20}
    done = [(plan_id, step) for plan_id in plan_ids for step, _, after in moves(redis, plan_id) if after == "DONE"]
    assert len(done) == len(set(done)) == 160
    assert stats(redis)["applied"] == 160
    assert waiting(redis) == (0, 0)


def test_an_outcome_that_is_sent_again_and_again_applies_once(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(2))
    (spec,) = specs(redis)
    for _ in range(5):
        report(redis, answer(spec))

    drain(here)

    assert (stats(redis)["applied"], stats(redis)["duplicate"]) == (1, 4)
    assert [spec["step_id"] for spec in specs(redis)] == ["s-1"]
    assert state(redis, plan_id) == "EXECUTING"


def test_what_a_dead_worker_had_read_is_taken_over(here: Container, redis: Redis) -> None:
    plan_ids = plan(here, redis, *[a_goal(1) for _ in range(10)])
    work(redis)
    redis.xreadgroup(GROUP, "dead-worker", {P0.outcomes: ">"}, count=100)

    drain(here)
    left = waiting(redis)
    taken = here.context(0).engine.recover(0)

    assert (left, taken) == ((10, 10), 10)
    assert Counter(state(redis, plan_id) for plan_id in plan_ids) == {"COMPLETED": 10}
    assert waiting(redis) == (0, 0)


def test_all_of_what_a_dead_worker_had_read_is_taken_over_at_once(here: Container, redis: Redis) -> None:
    plan(here, redis, a_goal(200, limits={"max_parallel": 64}, steps=_free(200)))
    for _ in range(200):
        report(redis, {"data": STEP + b"}"})
    redis.xreadgroup(GROUP, "dead-worker", {P0.outcomes: ">"}, count=1000)

    assert here.context(0).engine.recover(0) == 200
    assert waiting(redis) == (0, 0)


def test_what_a_living_worker_has_read_is_left_to_it(here: Container, redis: Redis) -> None:
    report(redis, {"data": STEP + b"}"})
    redis.xreadgroup(GROUP, "living", {P0.outcomes: ">"})

    assert here.context(0).engine.recover(60_000) == 0
    assert waiting(redis) == (1, 1)


@pytest.mark.parametrize("who", ["dead-worker", "here"])
@pytest.mark.parametrize("stream", [keys.GOALS, P0.outcomes, P0.commands, keys.COMMANDS])
def test_an_entry_that_was_deleted_and_never_acknowledged_is_dropped_and_not_dead(
    here: Container, redis: Redis, stream: str, who: str
) -> None:
    """As it is left by a worker that dies, or loses its connection, in the middle of dropping it."""
    reader = Inbox(here.client, stream, "", here.name if who == "here" else who)
    redis.xadd(stream, {"data": b"taken"})
    (entry,) = reader.read()
    first, _ = reader.drop((entry,))

    redis.execute_command(*first)
    assert waiting(redis, stream) == (0, 1)
    drain(here)  # its first one reads what is pending here
    here.context(0).engine.recover(0)
    here.goal_consumer.take_pending()
    here.goal_consumer.recover(0)
    here.bulk_commands.drain()

    assert waiting(redis, stream) == (0, 0)
    assert [redis.xlen(name) for name in (keys.GOALS_DEAD, P0.dead, keys.COMMANDS_DEAD)] == [0, 0, 0]


def test_a_server_that_lost_the_functions_gets_them_again_and_nothing_is_lost(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    work(redis)
    redis.function_flush()

    drain(here)
    drain(here)  # counts what the first one did

    assert state(redis, plan_id) == "COMPLETED"
    assert (stats(redis)["applied"], waiting(redis)) == (1, (0, 0))


def test_a_server_that_lost_the_functions_has_no_entry_dead_twice(here: Container, redis: Redis) -> None:
    plan(here, redis, a_goal(1))
    work(redis)
    report(redis, {"data": b"not json"})
    redis.function_flush()

    drain(here)

    assert len(dead(redis)) == 1


def test_a_server_that_lost_the_functions_still_gets_its_plans(here: Container, redis: Redis) -> None:
    redis.function_flush()

    assert len(plan(here, redis, a_goal(1))) == 1


def test_a_sweep_looks_at_plans_whose_timer_has_run_out(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    functions.call(redis, "FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")
    redis.hset(spec["lease_key"], mapping={"claimed": 1, "renewed": 1})
    redis.zadd(P0.timers, {plan_id: 1})

    here.context(0).engine.sweep("me")
    assert specs(redis) == []

    def tried_again() -> bool:
        here.context(0).engine.sweep("me")
        return bool(specs(redis))

    wait_until(tried_again, what="it is tried again after a while")
    (again,) = specs(redis)
    assert again["attempt"] == 2
    assert again["context"]["previous_failure"]["category"] == "LEASE_EXPIRED"
    due: Any = redis.zscore(P0.timers, plan_id)
    assert due > 1


def test_a_plan_whose_look_fails_is_not_looked_at_again_at_once(
    here: Container, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    redis.hset(spec["lease_key"], mapping={"claimed": 1, "renewed": 1})
    redis.hdel(P0.plan(plan_id).steps, "s-0")  # a defect of ours, whichever
    redis.zadd(P0.timers, {plan_id: 1})

    here.context(0).engine.sweep("me")

    assert 1 <= [record.message for record in caplog.records].count("decision failed") <= 5


def test_a_plan_that_cannot_be_read_does_not_stop_the_others(here: Container, redis: Redis) -> None:
    broken, other = plan(here, redis, a_goal(1), a_goal(1))
    work(redis)
    redis.hset(P0.plan(broken).plan, "live", "{")

    drain(here)

    assert state(redis, other) == "COMPLETED"


def test_a_timer_of_a_plan_that_is_gone_goes(here: Container, redis: Redis) -> None:
    redis.zadd(P0.timers, {NOBODY: 1})

    here.context(0).engine.sweep("me")

    assert redis.zcard(P0.timers) == 0


def test_the_same_goal_under_the_same_id_is_one_plan(here: Container, redis: Redis) -> None:
    goal = a_goal(2, goal_id="ci-1")
    reordered = dict(reversed(goal.items()))

    plan_ids = plan(here, redis, goal, goal, reordered)

    assert len(plan_ids) == 1
    assert redis.hget(keys.GOALS_STATS, "duplicate") == b"2"
    assert dead(redis, keys.GOALS_DEAD) == []


def test_another_goal_under_the_same_id_is_a_conflict(here: Container, redis: Redis) -> None:
    plan_ids = plan(here, redis, a_goal(2, goal_id="ci-1"), a_goal(3, goal_id="ci-1"))

    (buried,) = dead(redis, keys.GOALS_DEAD)
    assert len(plan_ids) == 1
    assert buried["problem"]["code"] == "goal_conflict"
    assert plan_ids[0] in buried["problem"]["detail"]


def test_the_same_goal_without_an_id_is_two_goals(here: Container, redis: Redis) -> None:
    assert len(plan(here, redis, a_goal(2), a_goal(2))) == 2


def test_the_id_of_the_entry_serves_a_goal_that_has_none(here: Container, redis: Redis) -> None:
    for _ in range(2):
        publish(redis, a_goal(2), id="event-1")

    assert len(plan(here, redis)) == 1
    assert redis.hget(keys.goal_id("event-1"), "verdict") == b"PLANNED"


def test_a_goal_is_answered_where_its_producer_looks(here: Container, redis: Redis) -> None:
    entry = publish(redis, {"goal": "Fix it", "steps": []})
    (plan_id,) = plan(here, redis)

    record: Any = redis.hgetall(keys.goal_id(entry))

    assert (record[b"plan_id"].decode(), record[b"verdict"]) == (plan_id, b"REJECTED")
    assert record[b"reason"]
    assert state(redis, plan_id) == "REJECTED"
    assert redis.exists(QUEUE) == 0


@pytest.mark.parametrize("chunks", [0, 1, 2, 3])
def test_a_creation_that_was_cut_short_is_finished_once(here: Container, redis: Redis, chunks: int) -> None:
    body = a_goal(160, goal_id="ci-1", steps=_free(160), limits={"max_parallel": 64})
    publish(redis, body)
    here.goals.read()
    plan_id = _begin_creation(here, redis, body, chunks)

    here.goal_consumer.recover(0)
    here.context(0).engine.sweep("me")  # the clock that every plan has from its creation
    while work(redis):
        drain(here)

    assert plans(redis) == [plan_id]
    assert redis.hget(keys.goal_id("ci-1"), "verdict") == b"PLANNED"
    assert state(redis, plan_id) == "COMPLETED"
    assert [after for _, _, after in moves(redis, plan_id)].count("DONE") == 160
    assert stats(redis)["applied"] == 160
    assert waiting(redis, keys.GOALS) == (0, 0)


@pytest.mark.parametrize(
    ("owner", "look"),
    [(PlanCreation, "find"), (Admission, "plan_seed"), (GoalBatch, "_admit"), (GoalBatch, "_prepare")],
)
def test_a_goal_that_two_workers_take_at_once_is_made_once(
    here: Container, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch, owner: type, look: str
) -> None:
    """Each takes one of two copies; after either look of ours at what is there, the other makes the plan."""
    if owner is not GoalBatch:
        monkeypatch.setattr(GoalBatch, "plan", lambda _, entries: list(entries))
    asked, others = getattr(owner, look), [container(redis_url)]

    def looking(*args: Any) -> Any:
        seen = asked(*args)
        if others:
            with others.pop() as other:
                publish(redis, a_goal(3, goal_id="ci-1"))
                other.goal_consumer.drain()
                work(redis)
                drain(other)
        return seen

    monkeypatch.setattr(owner, look, looking)
    publish(redis, a_goal(3, goal_id="ci-1"))
    (plan_id,) = plan(here, redis)
    while work(redis):
        drain(here)

    assert [after for _, _, after in moves(redis, plan_id)].count("DONE") == 3
    assert state(redis, plan_id) == "COMPLETED"
    assert (redis.xlen(QUEUE), waiting(redis, keys.GOALS)) == (0, (0, 0))


def test_a_refusal_that_is_answered_late_still_says_why(here: Container, redis: Redis) -> None:
    publish(redis, {"goal": "Fix it", "goal_id": "ci-1", "steps": []})
    plan(here, redis)
    why = redis.hget(keys.goal_id("ci-1"), "reason")
    redis.hset(keys.goal_id("ci-1"), mapping={"verdict": "PENDING", "reason": ""})  # the worker died before it answered
    publish(redis, {"goal": "Fix it", "goal_id": "ci-1", "steps": []})

    plan(here, redis)

    assert redis.hget(keys.goal_id("ci-1"), "reason") == why


def _begin_creation(here: Container, redis: Redis, body: dict[str, Any], chunks: int) -> str:
    """Do what a worker does that dies after so many commits of the creation."""
    (entry,) = here.goals.read(after="0")
    found = read_goal(entry, 2**23)
    assert isinstance(found, tuple)
    goal, digest = found
    plan_id, _, _ = goal_record.claim(here.client, keys.goal_id("ci-1"), fresh_plan_id(None), digest, 600)
    answer = goals.plan(goal)
    assert isinstance(answer, Draft)
    ago = time.time_ns() // 1_000_000 - 5000
    plan_seed = PlanSeed(plan_id, "ci-1", ago, "dead worker's seed", P0.outcomes, P0.lease_prefix(plan_id))
    changes = list(goals.accept(plan_seed, goal, answer))[:chunks]
    assert here.context(0).store.commit([Write(change) for change in changes]) == ["ok"] * len(changes)
    return plan_id


def _free(count: int) -> list[dict[str, Any]]:
    return [{**step, "depends_on": []} for step in chain(count)]


@pytest.mark.parametrize("value", [b"[" * 300 + b"]" * 300, b"NaN"])
def test_an_order_that_cannot_be_kept_is_dead_at_once_and_spares_its_neighbours(
    here: Container, redis: Redis, value: bytes
) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    order = b'{"command_id":"c-%d","command":"pause","scope":"plan","plan_id":"%s","actor":"a","reason":"r","value":%s}'
    redis.xadd(P0.commands, {"data": order % (1, plan_id.encode(), value)})
    redis.xadd(P0.commands, {"data": order % (2, plan_id.encode(), b"null")})

    drain(here)

    assert [each["problem"]["code"] for each in dead(redis)] == ["invalid_json"]
    assert redis.xlen(P0.commands) == 0


def test_an_outage_of_five_minutes_halts_no_plan(here: Container, redis: Redis) -> None:
    """Nobody swept for that long: silent controllers get their time again, and the wall clocks stood still."""
    (plan_id,) = plan(here, redis, a_goal(1, limits={"wall_clock_s": 120}))
    (spec,) = specs(redis)
    functions.call(redis, "FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")
    here.context(0).engine.sweep(here.name)
    five_minutes_ago(redis, plan_id, spec["lease_key"], redis.hgetall(P0.sweep))

    here.context(0).engine.sweep(here.name)

    assert state(redis, plan_id) == "EXECUTING"
    assert [spec["attempt"] for spec in specs(redis)] == [1]
    down: Any = redis.hget(P0.sweep, "down")
    assert 300_000 <= int(down) < 310_000
    live: Any = redis.hget(P0.plan(plan_id).plan, "live")
    assert 300_000 <= codec.loads(live)["times"]["lost"] < 310_000
    report(redis, answer(spec))
    drain(here)
    assert state(redis, plan_id) == "COMPLETED"


HOUR_MS = 3_600_000


def an_hour_to_come(redis: Redis, plan_id: str, lease: str) -> None:
    """Leave what a worker that is gone has noted as a clock that is then set back by an hour leaves it."""
    clock: Any = redis.time()
    ahead = 1000 * clock[0] + HOUR_MS
    redis.hset(P0.plan(plan_id).plan, "lock", f"gone {ahead + 5000}")
    redis.hset(P0.sweep, mapping={"token": "gone", "until": ahead + 10_000, "last": ahead, "grace": 0, "down": 0})
    redis.hset(lease, mapping={"claimed": ahead - 50_000, "renewed": ahead - 50_000})
    redis.zadd(P0.timers, {plan_id: ahead + 10_000})


def test_a_clock_that_is_set_back_keeps_no_plan_locked(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    an_hour_to_come(redis, plan_id, spec["lease_key"])

    report(redis, answer(spec))
    drain(here)

    assert state(redis, plan_id) == "COMPLETED"


def test_a_clock_that_is_set_back_does_not_hide_a_controller_that_is_silent(
    here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.handlers.upkeep.SILENT_MS", 8000)
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    functions.call(redis, "FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")
    an_hour_to_come(redis, plan_id, spec["lease_key"])

    here.context(0).engine.sweep(here.name)
    due: Any = redis.zscore(P0.timers, plan_id)
    clock: Any = redis.time()
    assert due <= 1000 * (clock[0] + 1) + 10_000
    redis.zadd(P0.timers, {plan_id: 1})
    here.context(0).engine.sweep(here.name)
    assert [spec["attempt"] for spec in specs(redis)] == [1]  # it has its time to renew by the new clock

    monkeypatch.setattr("tasks.handlers.upkeep.SILENT_MS", 100)  # which is soon over

    def taken_back() -> bool:
        redis.zadd(P0.timers, {plan_id: 1})
        here.context(0).engine.sweep(here.name)
        return [spec["attempt"] for spec in specs(redis)] != [1]

    wait_until(taken_back, what="the attempt is taken back")


def test_a_clock_that_is_set_back_does_not_keep_entries_from_being_taken_over(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    report(redis, answer(spec))
    reply: Any = redis.xreadgroup(GROUP, "gone", {P0.outcomes: ">"})
    deliver_in_an_hour(redis, reply[0][1][0][0])
    an_hour_to_come(redis, plan_id, spec["lease_key"])
    here.context(0).engine.sweep(here.name)

    def applied() -> bool:
        here.context(0).engine.recover(50)
        return state(redis, plan_id) == "COMPLETED"

    wait_until(applied, what="the outcome is applied")


def deliver_in_an_hour(redis: Redis, entry: Any) -> None:
    """Have an entry that is pending for somebody be delivered at a time to come, which no command does."""
    seconds: Any = redis.time()
    known = 1000 * seconds[0] - 12_345
    redis.xclaim(P0.outcomes, GROUP, "gone", 0, [entry], time=known, justid=True)
    dump: Any = redis.dump(P0.outcomes)
    assert dump.count(known.to_bytes(8, "little")) == 1
    body = dump[:-8].replace(known.to_bytes(8, "little"), (known + HOUR_MS).to_bytes(8, "little"))
    crc = 0
    for byte in body:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    redis.restore(P0.outcomes, 0, body + crc.to_bytes(8, "little"), replace=True)


def test_orders_go_on_when_the_clock_is_set_back_while_one_who_is_gone_held_their_lock(redis: Redis) -> None:
    functions.load(redis)
    redis.set(keys.COMMANDS_LOCK, "gone", px=HOUR_MS)

    assert functions.call(redis, "FCALL", functions.HOLD_LOCK, 1, keys.COMMANDS_LOCK, "me", 30_000) == 1
    assert functions.call(redis, "FCALL", functions.HOLD_LOCK, 1, keys.COMMANDS_LOCK, "other", 30_000) == 0


def five_minutes_ago(redis: Redis, plan_id: str, lease: str, sweep: Any) -> None:
    """Move everything that the server has noted of this plan and of the sweeps five minutes back."""
    long = 300_000
    redis.hset(P0.sweep, mapping={"last": int(sweep[b"last"]) - long, "until": int(sweep[b"until"]) - long})
    for field in ("claimed", "renewed"):
        redis.hincrby(lease, field, -long)
    key = P0.plan(plan_id).plan
    raw: Any = redis.hget(key, "live")
    stored = codec.loads(raw)
    stored["times"] = {name: at - long if name != "down" else at for name, at in stored["times"].items()}
    redis.hset(key, "live", codec.dumps({**stored, "wake": 1}))
    redis.zadd(P0.timers, {plan_id: 1})


def test_a_lease_lasts_as_its_controller_asked_when_it_claimed(here: Container, redis: Redis) -> None:
    plan(here, redis, a_goal(1), a_goal(1))
    asking, usual = specs(redis)

    def beat(spec: dict[str, Any], *more: str) -> Any:
        call = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1", *more)
        return functions.call(redis, *call)[2]

    def is_held_after(silent_ms: int, *held: dict[str, Any]) -> list[bool]:
        for spec in held:
            for field in ("claimed", "renewed"):
                redis.hincrby(spec["lease_key"], field, -silent_ms)
            redis.zadd(P0.timers, {spec["plan_id"]: 1})
        here.context(0).engine.sweep("me")
        return [redis.hexists(P0.plan(spec["plan_id"]).active, spec["step_id"]) for spec in held]

    assert [beat(asking, "300"), beat(usual)] == [300_000, 60_000]
    assert is_held_after(55_000, asking, usual) == [True, True]
    assert is_held_after(235_000, asking, usual) == [True, False]
    assert beat(asking) == 300_000
    assert is_held_after(290_000, asking) == [True]
    assert is_held_after(10_000, asking) == [False]


def test_an_expiry_waits_for_an_older_outcome_that_nobody_has_applied(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    functions.call(redis, "FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")
    redis.hset(spec["lease_key"], mapping={"claimed": 1, "renewed": 1})
    early: Any = answer(spec)
    redis.xadd(P0.outcomes, early, id="50-1")  # it came before the lease ran out
    redis.zadd(P0.timers, {plan_id: 1})

    here.context(0).engine.sweep(here.name)
    assert [spec["attempt"] for spec in specs(redis)] == [1]
    drain(here)

    assert state(redis, plan_id) == "COMPLETED"


@pytest.mark.parametrize("duty", ["drain", "sweep", "recover"])
def test_functions_that_get_lost_with_an_entry_in_hand_are_loaded_again_by_whatever_comes_next(
    here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch, duty: str
) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    drain(here)
    work(redis)
    engine = here.context(0).engine

    def broken(*_: Any) -> None:
        raise RedisConnectionError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(PlanTalk, "begin", broken)
        with pytest.raises(RedisConnectionError):
            drain(here)
    assert waiting(redis) == (1, 1)
    redis.function_flush()

    arguments: dict[str, tuple[Any, ...]] = {"drain": (), "sweep": ("me",), "recover": (10**6,)}
    getattr(engine, duty)(*arguments[duty])

    assert state(redis, plan_id) == "COMPLETED"


@pytest.mark.parametrize("renewed", ["soon", "007", "1e3", "-5", "9" * 30, ""])
def test_whatever_a_controller_writes_into_its_lease_the_attempt_ends(
    here: Container, redis: Redis, renewed: str
) -> None:
    (plan_id,) = plan(here, redis, a_goal(1, limits={"lease_deaths": 1}))
    (spec,) = specs(redis)
    redis.hset(spec["lease_key"], mapping={"claimed": 1, "renewed": renewed})
    redis.zadd(P0.timers, {plan_id: 1})

    here.context(0).engine.sweep(here.name)

    assert state(redis, plan_id) == "HALTED"


def test_a_lease_of_another_type_does_not_keep_its_plan_from_halting(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    redis.set(spec["lease_key"], "mine")
    order = {"command_id": "h", "command": "halt", "scope": "plan", "plan_id": plan_id, "actor": "a", "reason": "r"}
    redis.xadd(P0.commands, {"data": codec.dumps(order)})

    drain(here)

    assert state(redis, plan_id) == "HALTED"
    assert redis.ttl(P0.plan(plan_id).plan) > 0
    assert redis.xlen(P0.commands) == 0


@pytest.mark.parametrize("stream", [keys.GOALS, P0.outcomes, P0.commands])
def test_an_entry_that_dies_while_the_functions_are_lost_is_not_lost(
    here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    redis.xadd(stream, {"data": b"not json"})
    monkeypatch.setattr(router, "COMMANDS_S", 0.0)
    redis.function_flush()

    drain(here)
    here.goal_consumer.drain()

    assert redis.xlen(stream) == 0
    assert len(dead(redis, keys.GOALS_DEAD if stream == keys.GOALS else P0.dead)) == 1


def read_ahead(other: Container) -> list[StreamEntry]:
    """Read as the consumer of a container's engine, beside that."""
    return Inbox(other.client, P0.outcomes, "", other.name).read()


def test_entries_that_are_given_to_an_engine_that_reads_again_what_is_pending_are_applied_once(
    here: Container, redis: Redis, redis_url: str
) -> None:
    plan(here, redis, a_goal(2))
    (spec,) = specs(redis)
    with container(redis_url) as other:  # whose engine compares the server first of all, and reads what is pending
        engine = other.context(0).engine
        look = engine.pending_look
        report(redis, answer(spec))

        engine.apply(read_ahead(other), look)
        engine.apply([], engine.pending_look)

    assert stats(redis)["applied"] == 1
    assert not {"late", "duplicate", "refused"} & stats(redis).keys()


@pytest.mark.parametrize("is_recovered", [False, True])
def test_what_an_engine_met_as_pending_before_it_is_given_is_judged_once(
    here: Container, redis: Redis, redis_url: str, is_recovered: bool
) -> None:
    plan(here, redis, a_goal(2))
    (spec,) = specs(redis)
    with container(redis_url) as other:
        engine = other.context(0).engine
        if is_recovered:
            engine.apply([], engine.pending_look)
        look = engine.pending_look
        report(redis, answer(spec))
        redis.xadd(P0.outcomes, {"data": b"not json"})
        entries = read_ahead(other)
        if is_recovered:
            redis.xadd(P0.outcomes, {"data": b"not json either"})
            redis.xreadgroup(GROUP, "gone", {P0.outcomes: ">"})
            engine.recover(0)  # takes what another had read, and reads all that is pending
        else:
            engine.carry_on(spec["plan_id"])

        engine.apply(entries, look)
        engine.apply([], engine.pending_look)

    assert stats(redis)["applied"] == 1
    assert not {"late", "duplicate", "refused"} & stats(redis).keys()
    assert len(dead(redis, P0.dead)) == 1 + is_recovered


def test_what_the_consumer_of_one_engine_read_is_applied_by_another_that_is_given_it(
    here: Container, redis: Redis, redis_url: str
) -> None:
    plan(here, redis, a_goal(2))
    (spec,) = specs(redis)
    report(redis, answer(spec))
    with container(redis_url) as other:
        entries = read_ahead(here)

        other.context(0).engine.apply(entries, here.context(0).engine.pending_look)

    assert stats(redis)["applied"] == 1
    assert redis.xlen(P0.outcomes) == 0


def test_what_was_sent_to_another_partition_is_not_sent_again_when_what_is_pending_is_read_again(
    redis_url: str, redis: Redis
) -> None:
    with container(redis_url, partitions=2) as here:
        engine = here.context(0).engine
        engine.apply([], engine.pending_look)
        for number in range(3):
            report(
                redis, {"data": codec.dumps({"step_id": "s-0", "success": True, "plan_id": f"plan_01-{number:032x}"})}
            )
        engine.apply(read_ahead(here), engine.pending_look)  # what removes them goes with the next commit

        engine.apply(read_ahead(here), since=None)

    assert redis.xlen(Partition(1).outcomes) == 3
    assert waiting(redis) == (0, 0)
