"""Claims and heartbeats over HTTP: a real gateway on a real server, a worker's parts in this process."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from redis import Redis
from redis.exceptions import ResponseError

from schemas import codec
from schemas.api_key import Right
from tasks.plan.snapshot import NOTE
from tests.conftest import wait_until
from tests.support.engine import a_goal, drain, plan
from tests.support.gateway import Gateway, running_gateway
from tests.support.messages import answer, report, specs
from tests.support.stored import P0, QUEUE
from worker.gateway.app import create_app
from worker.gateway.claiming import ClaimDesk
from worker.gateway.waiter import Wanted
from worker.process.container import Container
from worker.settings.settings import Settings
from worker.store import claims, clients, fleet, functions, keys, queries
from worker.store.keys import CONTROLLERS, GATEWAYS


@pytest.fixture
def others() -> Iterator[ThreadPoolExecutor]:
    """Threads for callers who wait."""
    with ThreadPoolExecutor(20) as pool:
        yield pool


def claim(client: httpx.Client, **said: Any) -> list[dict[str, Any]]:
    response = client.post("/v1/steps:claim", json={"controller": "ctl-7", "wait_s": 0, **said})
    assert response.status_code == 200, response.text
    steps: list[dict[str, Any]] = response.json()["steps"]
    return steps


def waits(redis: Redis) -> bool:
    """Whether a gateway's watch has begun: it reads without the group."""
    found: Any = redis.client_list()
    return any(each["cmd"] == "xread" and "b" in each["flags"] for each in found)


def stand(gateway: Gateway, count: int) -> bool:
    """Whether so many callers wait for a step."""
    return gateway.context.claims.waiting(QUEUE) == count


def independent(count: int, **more: Any) -> dict[str, Any]:
    """A goal whose steps may all start at once."""
    goal = a_goal(count, **more)
    goal["limits"]["max_parallel"] = count
    goal["steps"] = [{**step, "depends_on": []} for step in goal["steps"]]
    return goal


def lease_of(redis: Redis, spec: dict[str, Any]) -> dict[bytes, bytes]:
    found: Any = redis.hgetall(spec["lease_key"])
    return dict(found)


def hear(client: httpx.Client, spec: dict[str, Any], controller: str = "ctl-7", **more: Any) -> dict[str, Any]:
    named = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
    response = client.post("/v1/steps:heartbeat", json={"controller": controller, "steps": [{**named, **more}]})
    assert response.status_code == 200, response.text
    (said,) = response.json()["steps"]
    assert {name: said[name] for name in named} == named
    return {name: said[name] for name in said if name not in named}


def test_a_heartbeat_with_the_attempts_limit_of_tool_calls_is_answered_with_cancel(
    here: Container, redis: Redis, controller: httpx.Client
) -> None:
    plan(here, redis, a_goal(1))
    (spec,) = claim(controller, wait_s=30)
    redis.hset(spec["lease_key"], "calls", 10)

    answers = [hear(controller, spec, tool_calls=calls)["action"] for calls in (None, 9, 10)]

    assert answers == ["continue", "continue", "cancel"]


def test_a_step_is_claimed_in_the_name_of_key_and_controller_and_its_claim_is_renewed(
    here: Container, redis: Redis, gateway: Gateway, controller: httpx.Client
) -> None:
    assert claim(controller) == []  # not even the queue is there
    plan(here, redis, a_goal(2))

    (spec,) = claim(controller, ttl_s=300, info={"version": "1"})

    assert [spec] == specs(redis)
    lease = lease_of(redis, spec)
    key_id = controller.headers["Authorization"].split("_")[1]
    assert lease[b"controller"] == f"{key_id}/ctl-7".encode()
    assert (lease[b"ttl"], codec.loads(lease[b"info"])) == (b"300000", {"version": "1"})

    def pends_with_its_controller() -> bool:
        pending: Any = redis.xpending_range(QUEUE, CONTROLLERS, "-", "+", 10)
        return [each["consumer"] for each in pending] == [f"{key_id}/ctl-7".encode()]

    wait_until(pends_with_its_controller, what="the entry moves, which it does after the reply")
    assert [(each.name, len(each.steps)) for each in fleet.controllers(redis)] == [(f"{key_id}/ctl-7", 1)]
    assert claim(controller) == []
    left = spec["limits"]["tokens"]
    assert hear(controller, spec) == {"action": "continue", "tokens_left": left, "lease_ttl_ms": 300_000}
    assert hear(controller, spec, "ctl-8")["action"] == "taken"
    assert hear(gateway.client(Right.CONTROLLER), spec)["action"] == "taken"
    assert hear(controller, {**spec, "lease": "guess"})["action"] == "stale"


def test_a_caller_waits_for_what_comes_and_goes_with_nothing_when_its_time_is_over(
    here: Container, redis: Redis, controller: httpx.Client, others: ThreadPoolExecutor
) -> None:
    began = time.monotonic()
    assert claim(controller, wait_s=0.5) == []
    assert 0.5 <= time.monotonic() - began < 3

    came = others.submit(claim, controller, wait_s=30)
    wait_until(lambda: waits(redis), what="the watch")
    plan(here, redis, a_goal(1))

    (spec,) = came.result(5)
    assert spec["step_id"] == "s-0"


def test_the_first_who_came_is_the_first_who_is_given_and_each_has_what_fits(
    here: Container, redis: Redis, gateway: Gateway, controller: httpx.Client, others: ThreadPoolExecutor
) -> None:
    waiting: list[Future[list[dict[str, Any]]]] = []
    for number, most in enumerate((1, 3, 1)):
        waiting.append(others.submit(claim, controller, wait_s=30, max=most, controller=f"ctl-{number}"))
        wait_until(partial(stand, gateway, number + 1), what="the next in the queue")
    plan(here, redis, independent(4))

    first, second = (each.result(5) for each in waiting[:2])

    assert (len(first), len(second)) == (1, 3)
    assert not waiting[2].done()
    for spec in (*first, *second):
        report(redis, answer(spec))
    plan(here, redis, a_goal(1, goal_id="another"))
    assert len(waiting[2].result(5)) == 1


def test_the_same_claim_id_has_the_same_steps_on_any_gateway_and_never_claims_twice(
    here: Container,
    redis: Redis,
    redis_url: str,
    gateway: Gateway,
    controller: httpx.Client,
    others: ThreadPoolExecutor,
) -> None:
    plan(here, redis, independent(3))
    with running_gateway(redis_url) as second:
        elsewhere = second.with_token(controller.headers["Authorization"].split()[1])
        given = claim(controller, claim_id="c-1", max=2)
        assert len(given) == 2
        assert claim(controller, claim_id="c-1", max=2) == given
        assert claim(elsewhere, claim_id="c-1", max=2) == given
        assert claim(gateway.client(Right.CONTROLLER), claim_id="c-1") != given  # another key's is another claim
        assert claim(elsewhere) == []

        first = others.submit(claim, controller, claim_id="c-2", wait_s=5)
        wait_until(lambda: stand(gateway, 1), what="the first stands")
        again = others.submit(claim, elsewhere, claim_id="c-2", wait_s=20)
        wait_until(lambda: stand(second, 1), what="so does the second")
        plan(here, redis, independent(2, goal_id="more"))
        assert (first.result(20), len(again.result(10))) == ([], 1)  # who asked last is who is there

    for spec in given:
        report(redis, answer(spec))
    drain(here)
    assert claim(controller, claim_id="c-1", max=2) != given  # what has ended is given to nobody


def test_who_hangs_up_while_waiting_gets_nothing_and_what_cannot_be_written_is_handed_back(
    here: Container, redis: Redis, gateway: Gateway, controller: httpx.Client
) -> None:
    body = codec.dumps({"controller": "gone", "wait_s": 30})
    head = (
        f"POST /v1/steps:claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: {controller.headers['Authorization']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))) as caller:
        caller.sendall(head.encode() + body)
        wait_until(lambda: waits(redis), what="the watch")
    wait_until(lambda: not waits(redis), what="the caller is gone")
    (plan_id,) = plan(here, redis, a_goal(1))
    assert lease_of(redis, specs(redis)[0]).get(b"controller") is None

    (spec,) = claim(controller)
    claims.hand_back(redis, [(read(redis, spec), lease_of(redis, spec)[b"claim"].decode())])

    assert hear(controller, spec)["action"] == "taken"  # nobody's any more
    drain(here)
    events: Any = redis.xrange(P0.events)
    told = [codec.loads(fields[b"data"]) for _, fields in events if b"step.released" in fields[b"type"]]
    assert [each["reason"] for each in told] == ["undelivered"]
    notes: Any = redis.hget(P0.plan(plan_id).steps, NOTE + "released:s-0")
    counted = codec.loads(notes)
    assert (counted["count"], counted["by"]) == (0, {})  # of what halts a plan that nobody can do
    view = queries.plan(redis, 1, plan_id)
    assert view
    spent = view.budget
    assert (spent.tokens.spent, spent.failing_outcomes.spent) == (0, 0)


def read(redis: Redis, spec: dict[str, Any]) -> claims.SpecEntry:
    entries: Any = redis.xrange(QUEUE)
    (found,) = claims.read_again(redis, [(QUEUE, entry.decode()) for entry, _ in entries])
    assert found.lease == spec["lease"]
    return found


@pytest.mark.parametrize("asks_again", [True, False])
def test_a_claim_that_was_answered_elsewhere_meanwhile_is_not_handed_back(
    here: Container, redis: Redis, redis_url: str, *, asks_again: bool
) -> None:
    plan(here, redis, a_goal(1))
    wanted = Wanted(claims.Holder("key/ctl-7"), (QUEUE,), record=keys.claim_id("key", "c-1"))
    stopped, other = (ClaimDesk(lambda: clients.connect(redis_url, 1.0)) for _ in range(2))

    async def stop_in_between() -> None:
        given = stopped.enter(wanted)
        (spec,) = await given.given
        if asks_again:  # while the first gateway stands still, and its caller has hung up
            assert await other.enter(wanted).given == [spec]
        stopped.abandon(given)

    stopped.start()
    other.start()
    try:
        asyncio.run(asyncio.wait_for(stop_in_between(), 30))
    finally:
        stopped.close()  # once it has handed back what it may
        other.close()

    assert redis.xlen(P0.outcomes) == (0 if asks_again else 1)
    assert lease_of(redis, specs(redis)[0])[b"controller"] == (b"key/ctl-7" if asks_again else b"")


def test_what_a_gateway_that_died_had_in_hand_is_taken_by_another(
    here: Container, redis: Redis, controller: httpx.Client
) -> None:
    plan(here, redis, a_goal(1))
    read_by_the_dead = claims.read_new(redis, QUEUE, 5)
    assert len(read_by_the_dead) == 1
    assert claim(controller) == []
    redis.xclaim(QUEUE, CONTROLLERS, GATEWAYS, 0, [read_by_the_dead[0].entry_id], idle=4500)

    (spec,) = claim(controller, wait_s=10)

    assert lease_of(redis, spec)[b"controller"].endswith(b"/ctl-7")


def test_a_step_that_a_gateway_claimed_before_it_died_is_not_given_again(
    here: Container, redis: Redis, controller: httpx.Client
) -> None:
    plan(here, redis, a_goal(1))
    (step,) = claims.read_new(redis, QUEUE, 5)
    name = f"{controller.headers['Authorization'].split('_')[1]}/ctl-7"
    ((action, *_),) = claims.call(redis, [claims.Holder(name).beat(step.lease_key, step.attempt, step.lease)])
    assert action == b"continue"
    redis.xclaim(QUEUE, CONTROLLERS, GATEWAYS, 0, [step.entry_id], idle=60_000)

    def belongs() -> bool:
        assert claim(controller) == []
        pending: Any = redis.xpending_range(QUEUE, CONTROLLERS, "-", "+", 10)
        return [each["consumer"] for each in pending] == [name.encode()]

    wait_until(belongs, what="the entry is its holder's")


def test_what_a_controller_says_of_itself_is_left_out_where_it_cannot_be_kept(
    here: Container, redis: Redis, controller: httpx.Client
) -> None:
    plan(here, redis, a_goal(1))
    steps = ""
    for info in (b"1180591620717411303424", b'"\\ud800"', b"NaN"):
        body = b'{"controller": "ctl-7", "wait_s": 0, "info": {"done": %s}, "steps": [%s]}' % (info, steps.encode())
        for path in ("/v1/steps:claim", "/v1/steps:heartbeat"):
            said = controller.post(path, content=body, headers={"Content-Type": "application/json"})
            assert said.status_code == 200, (path, info, said.text)
        if not steps:
            (spec,) = specs(redis)
            steps = codec.dumps({name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}).decode()
        assert b"info" not in lease_of(redis, spec)


def test_handing_back_raises_what_the_server_refuses_but_not_what_stays_so(here: Container, redis: Redis) -> None:
    plan(here, redis, independent(2))
    first, second = claims.read_new(redis, QUEUE, 5)
    redis.config_set("min-replicas-to-write", 1)
    try:
        with pytest.raises(ResponseError, match="NOREPLICAS"):
            claims.hand_back(redis, [(first, "")])
    finally:
        redis.config_set("min-replicas-to-write", 0)
    redis.set(first.lease_key, "something else")

    claims.hand_back(redis, [(first, ""), (second, "")])

    assert redis.xlen(P0.outcomes) == 1


def test_a_full_server_gives_steps_of_a_queue_that_the_gateway_has_not_read_before(
    here: Container, redis: Redis, controller: httpx.Client
) -> None:
    plan(here, redis, a_goal(1))
    redis.config_set("maxmemory", 1)
    try:
        assert len(claim(controller)) == 1
    finally:
        redis.config_set("maxmemory", 0)


def test_a_step_that_was_claimed_for_a_caller_who_got_an_error_is_handed_back(
    here: Container, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(here, redis, a_goal(1))
    run = claims.run
    lost: list[Any] = []

    def lose_a_reply(client: Redis, commands: Sequence[claims.Command]) -> list[Any]:
        replies = run(client, commands)
        if not lost and any(functions.HEARTBEAT in command for command in commands):
            lost.append(replies)
            raise ConnectionResetError
        return replies

    monkeypatch.setattr(claims, "run", lose_a_reply)

    with running_gateway(redis_url, may_fail=True) as gateway:
        failed = gateway.client(Right.CONTROLLER).post("/v1/steps:claim", json={"controller": "ctl-7", "wait_s": 0})

        assert failed.status_code >= 500
        wait_until(lambda: redis.xlen(P0.outcomes) == 1, what="the step is handed back")


def test_a_key_is_for_its_queues_and_a_paused_plan_gives_nothing(
    here: Container, redis: Redis, gateway: Gateway, controller: httpx.Client
) -> None:
    refused = controller.post("/v1/steps:claim", json={"controller": "c", "queues": ["default", "gpu"]})
    assert (refused.status_code, refused.json()["code"]) == (403, "wrong_queue")
    assert gateway.client(Right.PRODUCER).post("/v1/steps:claim", json={"controller": "c"}).status_code == 403
    assert gateway.with_token(None).post("/v1/steps:claim", json={"controller": "c"}).status_code == 401
    wrong = controller.post("/v1/steps:claim", json={"controller": "a b", "max": 0, "queues": []})
    assert {each["pointer"] for each in wrong.json()["errors"]} == {"/controller", "/max", "/queues"}

    plan(here, redis, a_goal(1))
    (spec,) = specs(redis)
    redis.hset(spec["lease_key"], "action", "pause")
    assert claim(controller) == []
    drain(here)
    assert specs(redis) == []  # handed back: it waits in its plan, and with nobody


@pytest.mark.long
@pytest.mark.outages
def test_a_thousand_wait_in_one_process_with_one_connection(here: Container, redis: Redis, redis_url: str) -> None:
    count, made = 1000, []

    def make(settings: Settings) -> FastAPI:
        made.append(create_app(settings))
        return made[0]

    async def ask(client: httpx.AsyncClient, number: int) -> list[dict[str, Any]]:
        body = {"controller": f"ctl-{number}", "wait_s": 60}
        response = await client.post("/v1/steps:claim", json=body)
        steps: list[dict[str, Any]] = response.json()["steps"]
        return steps

    async def ask_all(gateway: Gateway) -> list[list[dict[str, Any]]]:
        limits, key = httpx.Limits(max_connections=None), gateway.key(Right.CONTROLLER)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=gateway.url, headers=headers, limits=limits, timeout=90) as client:
            waiting, callers = made[0].state.context.claims.waiting, []
            for number in range(count):
                callers.append(asyncio.create_task(ask(client, number)))
                while len(callers) - waiting(QUEUE) > 100 or (waiting(QUEUE) < len(callers) == count):
                    await asyncio.sleep(0.01)
                    assert not any(each.done() for each in callers)
            found: Any = redis.client_list()
            assert sum("b" in each["flags"] for each in found) == 1
            assert len(found) + threading.active_count() < 120  # those of the pools, however many wait
            await asyncio.to_thread(plan, here, redis, *(independent(10, goal_id=f"g-{n}") for n in range(count // 10)))
            return await asyncio.gather(*callers)

    with running_gateway(redis_url, make) as gateway:
        got = asyncio.run(ask_all(gateway))
    assert [len(steps) for steps in got] == [1] * count
    assert len({steps[0]["lease"] for steps in got}) == count


def test_a_gateway_that_is_told_to_end_lets_those_go_who_wait(
    redis: Redis, redis_url: str, others: ThreadPoolExecutor
) -> None:
    with httpx.Client(timeout=40) as client:
        with running_gateway(redis_url, stop_s=20) as gateway:
            client.base_url = httpx.URL(gateway.url)
            client.headers["Authorization"] = f"Bearer {gateway.key(Right.CONTROLLER)}"
            waiting = [others.submit(claim, client, wait_s=30) for _ in range(3)]
            wait_until(lambda: stand(gateway, 3), what="all wait")
            began = time.monotonic()
        assert [each.result(1) for each in waiting] == [[], [], []]
        assert time.monotonic() - began < 5
