"""Events over HTTP: each once, in order, whoever cuts the connection; and to nobody whom they do not concern."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from random import Random
from socket import create_connection
from subprocess import Popen
from typing import Any

import pytest
from fastapi import FastAPI
from redis import Redis

from schemas import codec
from schemas.api_key import Right
from tests.conftest import wait_until
from tests.support.engine import a_goal, plan
from tests.support.event_reading import OTHER, reading, tell
from tests.support.gateway import Gateway, running_gateway
from tests.support.servers import Fleet, Server, all_done, publish
from worker.gateway import event_hub
from worker.gateway.app import create_app
from worker.gateway.event_position import NO_EPOCH, START, Position
from worker.gateway.event_streams import resume
from worker.gateway.routes import events as door
from worker.process.container import Container
from worker.process.launch import worker_command
from worker.settings.settings import Settings
from worker.store.keys import Partition

PLANS = 60
EVENTS = PLANS * (10 * 2 + 6)  # at least: of ten steps two each, and of each plan six


@pytest.fixture
def other(redis_url: str, gateway: Gateway) -> Iterator[Gateway]:
    """A second gateway on the same server."""
    with running_gateway(redis_url) as running:
        yield running


@contextmanager
def telling(redis: Redis) -> Iterator[None]:
    """Write events all the while, each with a number."""
    ending = threading.Event()

    def tell_on() -> None:
        for number in count():
            tell(redis, "step.done", attempt=number)
            if ending.wait(0.001):
                return

    thread = threading.Thread(target=tell_on)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def test_a_reader_that_is_cut_goes_on_at_any_gateway_without_gap_or_double(
    redis: Redis, gateway: Gateway, other: Gateway
) -> None:
    clients = cycle([each.client(Right.VIEWER) for each in (gateway, other)])
    random, found, last_id = Random(7), list[int](), ""
    with telling(redis):
        while len(found) < 500:
            with reading(next(clients), last_id) as reader:
                for told in reader.take(random.randint(1, 120)):
                    assert told.event == "dev.planner.step.done.v1"
                    found.append(told.data["attempt"])
                last_id = reader.last_id
            time.sleep(random.choice((0, 0, 0.05)))

    assert found == list(range(found[0], found[0] + len(found)))


def test_a_reader_sees_its_tenant_and_its_repositories_alone(redis: Redis, gateway: Gateway) -> None:
    clients = {
        "every": gateway.client(Right.VIEWER),
        "acme": gateway.client(Right.PRODUCER, tenant="acme"),
        "shop": gateway.client(Right.VIEWER, tenant="acme", repositories=("acme/shop",)),
        "done": gateway.client(Right.ADMIN),
    }
    with (
        reading(clients["every"]) as every,
        reading(clients["acme"]) as acme,
        reading(clients["shop"]) as shop,
        reading(clients["done"], types="plan.completed,goal.*") as done,
    ):
        tell(redis, "plan.ready", OTHER, tenant="globex")
        tell(redis, "plan.ready", tenant="acme", repo="acme/web")
        tell(redis, "plan.ready", tenant="acme", repo="acme/shop")
        redis.xadd(Partition(0).events, {"type": "dev.planner.command.obeyed.v1", "data": b'{"scope":"all","at":""}'})
        tell(redis, "plan.completed", tenant="acme", repo="acme/shop")

        assert [told.data.get("repo", "none") for told in every.until("plan.completed")] == [
            *("none", "acme/web", "acme/shop", "none", "acme/shop")
        ]
        assert [told.data["repo"] for told in acme.until("plan.completed")] == ["acme/web", "acme/shop", "acme/shop"]
        assert [told.data["repo"] for told in shop.until("plan.completed")] == ["acme/shop", "acme/shop"]
        assert [told.event for told in done.until("plan.completed")] == ["dev.planner.plan.completed.v1"]


def test_a_plan_is_followed_from_its_beginning_and_that_of_another_is_not_there(
    redis: Redis, here: Container, gateway: Gateway
) -> None:
    tell(redis, "plan.ready", OTHER)
    (made,) = plan(here, redis, a_goal(tenant="acme", context={"repo": "acme/shop"}))
    mine, strange = gateway.client(Right.PRODUCER, tenant="acme"), gateway.client(Right.ADMIN, tenant="globex")
    with reading(mine, plan=made) as reader:
        was = reader.until("goal.decided")
        assert [told.event.split(".")[2] for told in was][:2] == ["goal", "plan"]
        for told in was:
            assert told.data["plan_id"] == made
            assert (told.data["tenant"], told.data["repo"], told.data["kind"]) == ("acme", "acme/shop", "task")
        tell(redis, "plan.halted", OTHER)
        tell(redis, "plan.completed", made, repo="acme/shop")
        assert [told.event for told in reader.take(1)] == ["dev.planner.plan.completed.v1"]

    for client, wanted in ((strange, made), (mine, OTHER), (mine, "../x"), (mine, made[:-1])):
        answer = client.get("/v1/events", params={"plan": wanted})
        assert (answer.status_code, answer.json()["code"]) == (404, "no_such_plan")
    nobody = gateway.client(Right.CONTROLLER).get("/v1/events")
    assert (nobody.status_code, gateway.with_token(None).get("/v1/events").status_code) == (403, 401)


def test_what_is_asked_for_wrongly_is_said(gateway: Gateway) -> None:
    client = gateway.client(Right.VIEWER)
    for last_id in ("1-0", "AAAA", "%", "A" * 7000):
        answer = client.get("/v1/events", headers={"Last-Event-ID": last_id})
        assert (answer.status_code, answer.json()["code"]) == (400, "wrong_position")
    answer = client.get("/v1/events", params={"types": "plan.ready,Robert'); --"})
    assert (answer.status_code, answer.json()["code"]) == (422, "wrong_type")


def test_a_reader_hears_that_events_were_cut_or_are_of_other_data(redis: Redis, gateway: Gateway) -> None:
    client = gateway.client(Right.VIEWER)
    commits = Partition(0).commits
    redis.hset(commits, mapping={"born": "x", "epoch": 0})
    with reading(client) as reader:
        for _ in range(3):
            tell(redis, "plan.ready")
        first, *_ = reader.take(3)
    with reading(client, first.id) as reader:
        assert len(reader.take(2)) == 2
    redis.xtrim(Partition(0).events, maxlen=1, approximate=False)
    with reading(client, first.id) as reader:
        gap, left = reader.take(2)
        assert (gap.event, gap.data) == ("gap", {"reason": "cut"})
        assert left.event == "dev.planner.plan.ready.v1"
    with reading(client, gap.id) as reader:
        assert reader.take(1) == [left]
    wait_until(lambda: gateway.context.hub.subscriptions == 0, what="no reader is left")
    with reading(client, left.id) as reader:
        wait_until(lambda: gateway.context.hub.subscriptions == 1, what="the reader is there")
        redis.hset(commits, "epoch", 1)
        (gap,) = reader.take(1)
        assert (gap.event, gap.data) == ("gap", {"reason": "rolled_back"})
        tell(redis, "plan.completed")
        assert reader.take(1)[0].event == "dev.planner.plan.completed.v1"
    with reading(client, left.id) as reader:
        assert [told.event for told in reader.take(2)] == ["gap", "dev.planner.plan.completed.v1"]


def test_a_reader_hears_that_the_data_became_others_while_it_was_let_in(
    redis: Redis, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, calls = gateway.client(Right.VIEWER), list[str]()
    redis.hset(Partition(0).commits, mapping={"born": "x", "epoch": 0})
    with reading(client) as other:
        tell(redis, "plan.ready")
        (first,) = other.take(1)

        def look_and_change(*position: Any) -> Any:
            found = resume(*position)
            calls.append("changed")
            if len(calls) == 1:
                redis.hset(Partition(0).commits, "epoch", 1)
                assert other.take(1)[0].event == "gap"  # the gateway has seen it, and told those who were there
            return found

        monkeypatch.setattr(door, "resume", look_and_change)
        with reading(client, first.id) as reader:
            assert [(each.event, each.data) for each in reader.take(1)] == [("gap", {"reason": "rolled_back"})]


def test_a_reader_that_does_not_read_costs_little_and_hears_of_a_gap(
    redis: Redis, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "HELD_BYTES", 200_000)
    token, filler = gateway.key(Right.VIEWER), "x" * 20_000
    with reading(gateway.with_token(token), types="plan.*") as quick:
        port = int(gateway.url.rpartition(":")[2])
        with create_connection(("127.0.0.1", port)) as slow:
            head = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
            slow.sendall(head.encode())
            wait_until(lambda: gateway.context.hub.subscriptions == 2, what="both read")
            for number in range(1500):  # 30 MB: more than sockets hold
                tell(redis, "step.done", attempt=number, reason=filler)
            tell(redis, "plan.completed")
            assert len(quick.until("plan.completed")) == 1
            slow.settimeout(10)
            received = bytearray()
            while b"plan.completed" not in received:
                received += slow.recv(1_000_000)
    assert b'event: gap\ndata: {"reason":"overrun"}' in received
    assert len(received) < 20_000_000


def test_silence_has_comments_a_key_that_ends_ends_its_stream_and_so_does_the_process(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "COMMENT_S", 0.2)
    monkeypatch.setattr(door, "LOOK_S", 0.1)
    made: list[FastAPI] = []

    def make(settings: Settings) -> FastAPI:
        made.append(create_app(settings))
        return made[0]

    with running_gateway(redis_url, make) as gateway:
        token = gateway.key(Right.VIEWER)
        with reading(gateway.with_token(token)) as reader:
            lines = reader.lines
            assert any(line == ": still here" for line in lines)
            assert next(lines).startswith("id: ")
            assert made[0].state.context.hub.subscriptions == 1
            gateway.redis.delete(*gateway.redis.keys("planner:{keys}*"))
            assert not [told for told in reader if told.event != "gap"]
        client = gateway.client(Right.VIEWER)
        with reading(client) as reader:
            wait_until(lambda: made[0].state.context.hub.subscriptions == 1, what="a reader")
        wait_until(lambda: made[0].state.context.hub.subscriptions == 0, what="a reader that has gone is noticed")
        with reading(client) as reader:
            began = time.monotonic()
            gateway.stop()
            assert not list(reader)
            assert time.monotonic() - began < 3


@pytest.mark.long
@pytest.mark.outages
def test_readers_hear_of_every_event_once_while_workers_and_gateways_are_killed(tmp_path: Path) -> None:
    """Workers take turns at being killed, gateways at being ended; nobody reads more than 50 at a time."""
    with Server(tmp_path / "redis") as server, server.client() as redis, Fleet(server.url):
        workers = [_start_worker(server.url, tmp_path / f"worker-{number}.log") for number in range(2)]
        random, found, last_id = Random(3), list[tuple[str, dict[str, Any]]](), ""
        try:
            wait_until(lambda: redis.exists("planner:goals"), 60, "a worker is there")
            publish(redis, 0, PLANS, steps=10)
            while len(found) < EVENTS - 300:
                with running_gateway(server.url) as first, running_gateway(server.url) as second:
                    clients = [each.client(Right.VIEWER) for each in (first, second)]
                    if not last_id:
                        last_id = Position(NO_EPOCH, (START,)).encode()
                    for client in clients * 3:
                        with reading(client, last_id) as reader:
                            found += [(told.event, told.data) for told in reader.take(random.randint(1, 50))]
                            last_id = reader.last_id
                number = random.randrange(2)
                workers[number].kill()
                workers[number].wait(60)
                workers[number] = _start_worker(server.url, tmp_path / f"worker-{len(found)}.log")
            all_done(redis, PLANS, steps=10)
            entries: Any = redis.xrange(Partition(0).events)
            kept = [(fields[b"type"].decode(), codec.loads(fields[b"data"])) for _, fields in entries]
            assert found == kept[: len(found)]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait(60)


def _start_worker(url: str, log: Path) -> Popen[bytes]:
    environment = {**os.environ, "PLANNER_REDIS_URL": url, "PLANNER_CLAIM_IDLE_S": "2"}
    with log.open("wb") as file:
        return Popen(worker_command(pool="solo"), env=environment, stdout=file, stderr=file)
