"""Goals over HTTP where no worker takes them: what the door itself says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from schemas.api_key import Right
from schemas.envelope import Problem
from tests.support.gateway import Gateway, running_gateway
from tests.support.servers import Server
from worker.gateway import known_keys
from worker.store import functions, goal_record, keys, publishing

FAR_MS = 9_999_999_999_999  # of an entry that no clock has reached

GOAL = {"goal": "Fix the login test", "allowed_files": ["src/auth.py"], "context": {"repo": "acme/shop"}}


def test_without_a_worker_the_answer_to_who_waits_is_that_it_is_pending(gateway: Gateway) -> None:
    producer = gateway.client(Right.PRODUCER)

    answer = producer.post("/v1/goals?wait=0.2", json={**GOAL, "goal_id": "later"})

    assert (answer.status_code, answer.json()["verdict"]) == (202, "PENDING")
    told = producer.get("/v1/goals?goal_id=later")
    assert (told.status_code, told.json()["verdict"]) == (200, "PENDING")
    unknown = producer.get("/v1/goals?goal_id=never")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "no_such_goal")


def test_what_became_of_a_goal_is_asked_at_once_and_a_second_body_noticed(gateway: Gateway) -> None:
    producer = gateway.client(Right.PRODUCER)

    sent = producer.post("/v1/goals", json={**GOAL, "goal_id": "early"})
    nameless = producer.post("/v1/goals", json=GOAL)
    again = producer.post("/v1/goals", json={**GOAL, "goal_id": "early"})
    other = producer.post("/v1/goals", json={**GOAL, "goal_id": "early", "goal": "Another"})

    told = [producer.get(each.headers["location"]).json() for each in (sent, nameless)]
    assert [each.status_code for each in (sent, nameless, again, other)] == [202, 202, 202, 409]
    assert [(each["verdict"], each["links"]["plan"]) for each in told] == [("PENDING", None)] * 2
    assert gateway.redis.xlen(keys.GOALS) == 3


def test_a_goal_with_an_id_costs_the_server_one_call(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_keys, "LASTS_S", 60.0)
    producer = gateway.client(Right.PRODUCER)
    producer.post("/v1/goals", json={**GOAL, "goal_id": "first"})  # from now on the key is known
    gateway.redis.config_resetstat()

    sent = producer.post("/v1/goals", json={**GOAL, "goal_id": "second"})
    told: Any = gateway.redis.info("commandstats")

    assert sent.status_code == 202
    calls = {name.removeprefix("cmdstat_"): said["calls"] for name, said in told.items()}
    of_the_function = {"hmget": 1, "del": 1, "hset": 1, "expire": 2, "xadd": 1}
    assert {name: calls[name] for name in ("fcall", *of_the_function)} == {"fcall": 1, **of_the_function}


def test_an_id_of_an_entry_that_another_goal_has_taken_is_a_conflict(gateway: Gateway) -> None:
    gateway.redis.xadd(keys.GOALS, {"data": b"{}"}, id=f"{FAR_MS}-0")
    taken = goal_record.claim_call(keys.goal_id(f"{FAR_MS}-1"), f"plan_00-{'0' * 32}", "another", 60)
    functions.call_or_load(gateway.redis, *taken)

    answer = gateway.client(Right.PRODUCER).post("/v1/goals", json=GOAL)

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


def test_a_goal_that_the_planner_refuses_before_its_record_is_made_stays_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = publishing.publish_goal

    def refused_at_once(client: Redis, *told: Any, **more: Any) -> publishing.Sent:
        sent = publish(client, *told, **more)
        assert goal_record.refuse(client, keys.goal_id(sent.goal_id), Problem.of("too_busy", "Too busy."), 600)
        return sent

    monkeypatch.setattr(publishing, "publish_goal", refused_at_once)
    producer = gateway.client(Right.PRODUCER, Right.VIEWER)

    sent = producer.post("/v1/goals", json=GOAL)

    assert sent.status_code == 202
    found: Any = gateway.redis.hgetall(keys.goal_id(sent.json()["goal_id"]))
    assert (found[b"verdict"], found[b"reason"]) == (b"REJECTED", b"too_busy")
    assert b"plan_id" not in found


@pytest.mark.outages
def test_a_full_server_takes_no_goal_and_a_second_body_is_noticed_all_the_same(tmp_path: Path) -> None:
    with Server(tmp_path / "server") as server, running_gateway(server.url) as gateway:
        producer = gateway.client(Right.PRODUCER)
        producer.post("/v1/goals", json={**GOAL, "goal_id": "early"})
        gateway.redis.config_set("maxmemory", "1mb")

        answers = [
            producer.post("/v1/goals", json={**GOAL, "goal_id": "early"}),
            producer.post("/v1/goals", json={**GOAL, "goal_id": "early", "goal": "Another"}),
            producer.post("/v1/goals", json={**GOAL, "goal_id": "late"}),
            producer.post("/v1/goals", json=GOAL),
        ]

    assert [(each.status_code, each.json()["code"]) for each in answers] == [
        (503, "out_of_memory"), (409, "goal_conflict"), (503, "out_of_memory"), (503, "out_of_memory"),
    ]  # fmt: skip


def test_all_that_is_wrong_with_a_goal_is_told_at_the_door_and_nothing_is_published(gateway: Gateway) -> None:
    producer = gateway.client(Right.PRODUCER)
    body = {"goal": " ", "queue": "Wrong!", "limits": {"tokens": "5000"}, "context": {"files": [1]}}
    event = {"id": "e", "source": "s", "type": "t", "specversion": "1.0", "data": body}

    plain = producer.post("/v1/goals", json=body)
    wrapped = producer.post("/v1/goals", content=codec.dumps(event), headers={"Content-Type": EVENT})
    no_event = producer.post("/v1/goals", content=codec.dumps({"data": body}), headers={"Content-Type": EVENT})

    pointers = ["/goal", "/context/files/0", "/limits/tokens", "/queue"]
    assert (plain.status_code, plain.json()["code"]) == (422, "invalid_message")
    assert [each["pointer"] for each in plain.json()["errors"]] == pointers
    assert [each["pointer"] for each in wrapped.json()["errors"]] == [f"/data{each}" for each in pointers]
    attributes = ["id", "source", "type", "specversion"]
    in_data = [f"/data{each}" for each in pointers]
    assert [each["pointer"] for each in no_event.json()["errors"]] == [*(f"/{each}" for each in attributes), *in_data]
    assert gateway.redis.xlen(keys.GOALS) == 0


EVENT = "application/cloudevents+json"
REFUSED = [
    (b"{", "application/json", 400, "invalid_json"),
    (b"", "application/json", 400, "invalid_json"),
    (b"[]", "application/json", 422, "invalid_message"),
    (b"{}", "text/plain", 415, "wrong_media_type"),
    (b'{"goal": "' + b"x" * 300_000 + b'"}', "application/json", 422, "invalid_message"),
    (codec.dumps({**GOAL, "constraints": ["c" * 1000] * 100, "context": {"failure_log": "x" * 200_000}}),
     "application/json", 413, "goal_too_large"),
    (b'{"goal": "' + b"x" * 9_000_000 + b'"}', "application/json", 413, "too_large"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "media", "status", "code"), REFUSED)
def test_what_is_no_goal_is_refused(gateway: Gateway, body: bytes, media: str, status: int, code: str) -> None:
    answer = gateway.client(Right.PRODUCER).post("/v1/goals", content=body, headers={"Content-Type": media})

    assert (answer.status_code, answer.json()["code"]) == (status, code)
