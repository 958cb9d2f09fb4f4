"""Goals over HTTP where no worker takes them: what the door itself says."""

from __future__ import annotations

import pytest

from schemas import codec
from schemas.api_key import Right
from tests.support.gateway import Gateway
from worker.store import keys

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
