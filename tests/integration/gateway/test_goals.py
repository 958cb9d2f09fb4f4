"""Goals over HTTP: handed in, waited for, told of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from schemas import codec
from schemas.api_key import Right
from tests.conftest import RunningWorker
from tests.support.gateway import Gateway, running_gateway

GOAL: dict[str, Any] = {
    "goal": "Fix the login test",
    "allowed_files": ["src/auth.py"],
    "context": {"repo": "acme/shop", "language": "python", "test_command": "pytest"},
}


@pytest.fixture(scope="module")
def running(planner_worker: RunningWorker) -> Iterator[Gateway]:
    """A gateway and a worker on one server."""
    with running_gateway(planner_worker.url) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def producer(running: Gateway) -> httpx.Client:
    return running.client(Right.PRODUCER)


def test_a_goal_is_taken_at_once_and_planned_soon(running: Gateway, producer: httpx.Client) -> None:
    sent = producer.post("/v1/goals", json={**GOAL, "goal_id": "plain"})
    known = producer.post("/v1/goals?wait=20", json={**GOAL, "goal_id": "plain"})

    assert (sent.status_code, sent.json()["verdict"]) == (202, "PENDING")
    assert sent.headers["location"] == sent.json()["links"]["self"] == "/v1/goals?goal_id=plain"
    assert (known.status_code, known.json()["verdict"]) == (200, "PLANNED")
    told = producer.get(sent.headers["location"]).json()
    assert told == known.json()
    assert producer.get(told["links"]["plan"]).json()["goal_id"] == "plain"


def test_a_goal_that_is_rejected_comes_with_every_error(producer: httpx.Client) -> None:
    answer = producer.post("/v1/goals?wait=20", json={**GOAL, "goal_id": "far", "allowed_files": ["../a", "/etc/b"]})

    assert (answer.status_code, answer.json()["verdict"]) == (200, "REJECTED")
    assert [each["pointer"] for each in answer.json()["errors"]] == ["/allowed_files/0", "/allowed_files/1"]


def test_an_idempotency_key_names_a_goal_whose_body_has_no_id(producer: httpx.Client) -> None:
    headers = {"Idempotency-Key": '"run-7"'}
    first = producer.post("/v1/goals?wait=20", json=GOAL, headers=headers)
    again = producer.post("/v1/goals?wait=20", json=GOAL, headers=headers)
    other = producer.post("/v1/goals", json={**GOAL, "goal": "Another"}, headers=headers)
    named = producer.post("/v1/goals", json={**GOAL, "goal": "Another", "goal_id": "run-7"})

    assert first.json()["goal_id"] == "run-7"
    assert again.json() == first.json()
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert (named.status_code, named.json()["code"]) == (409, "goal_conflict")


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_a_goal_may_come_as_a_cloud_event_whose_id_it_gets(producer: httpx.Client, mode: str) -> None:
    about = {"id": f"event-{mode}", "source": "/ci", "type": "org.acme.goal", "specversion": "1.0"}
    if mode == "structured":
        headers, body = {"Content-Type": "application/cloudevents+json"}, {**about, "data": GOAL}
    else:
        headers = {"Content-Type": "application/json", **{f"ce-{name}": value for name, value in about.items()}}
        body = GOAL

    answer = producer.post("/v1/goals?wait=20", content=codec.dumps(body), headers=headers)

    assert (answer.status_code, answer.json()["goal_id"]) == (200, f"event-{mode}")


def test_a_producer_sends_goals_of_its_tenant_queues_and_repositories_alone(running: Gateway) -> None:
    ours = running.client(Right.PRODUCER, tenant="acme", repositories=["acme/shop"])
    theirs = running.client(Right.PRODUCER, tenant="other")

    sent = ours.post("/v1/goals?wait=20", json={**GOAL, "goal_id": "mine"})
    refused = [
        ours.post("/v1/goals", json={**GOAL, "tenant": "other"}),
        ours.post("/v1/goals", json={**GOAL, "queue": "gpu"}),
        ours.post("/v1/goals", json={**GOAL, "context": {"repo": "acme/else"}}),
        running.client(Right.VIEWER).post("/v1/goals", json=GOAL),
    ]

    plan = sent.json()["links"]["plan"]
    assert [(each.status_code, each.json()["code"]) for each in refused] == [
        (403, "wrong_tenant"), (403, "wrong_queue"), (403, "wrong_repository"), (403, "no_right"),
    ]  # fmt: skip
    assert ours.get(plan).json()["tenant"] == "acme"
    assert ours.get("/v1/goals?goal_id=mine").status_code == 200
    assert theirs.get(plan).status_code == 404
    assert [theirs.get(f"/v1/goals?goal_id=mine{more}").status_code for more in ("", "&tenant=acme")] == [404, 404]
    assert running.client(Right.VIEWER).get("/v1/goals?goal_id=mine&tenant=acme").json()["verdict"] == "PLANNED"
