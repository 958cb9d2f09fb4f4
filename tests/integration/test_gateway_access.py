"""Who gets through a door: by key, right, rate, tenant, queue and repository."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from redis import Redis

from schemas.api_key import ApiKey
from schemas.goal import Goal
from tests.conftest import wait_until
from worker.gateway.access import Access, Credentials, Producer, caller_at_hand, callers_of
from worker.gateway.app import create_app
from worker.gateway.known_keys import LASTS_S, KnownKeys
from worker.gateway.problems import Refusal
from worker.settings.settings import Settings
from worker.store import api_keys
from worker.store.clients import connect


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with connect(redis_url) as made:
        yield made


@pytest.fixture
def gateway(redis_url: str) -> Iterator[TestClient]:
    """A gateway with a door of this test's own, which says under which tenant a goal would go."""
    app = create_app(Settings(redis_url=redis_url))

    @app.post("/test/goals")
    def door(caller: Producer, goal: dict[str, Any]) -> dict[str, Any]:
        return {"tenant": caller.admit(Goal.model_validate(goal)), "key": caller.key.key_id}

    with TestClient(app, base_url="http://localhost") as made:
        yield made


def token(client: Redis, *rights: str, **fields: Any) -> str:
    return api_keys.add(client, ApiKey.model_validate({"key_id": api_keys.new_id(), "rights": rights, **fields}))


def post(gateway: TestClient, shown: str, **goal: Any) -> tuple[int, str]:
    """Send a goal; returns the status, and the tenant or the problem's code."""
    headers = {"Authorization": f"Bearer {shown}"} if shown else {}
    answer = gateway.post("/test/goals", json={"goal": "Fix it", **goal}, headers=headers)
    said = answer.json()
    assert answer.status_code == said.get("status", 200)
    assert answer.status_code == 200 or answer.headers["Content-Type"] == "application/problem+json"
    assert shown.count("_") < 2 or shown.split("_")[2] not in answer.text
    return answer.status_code, said.get("tenant") or said["code"]


def test_who_shows_no_good_key_stays_out(gateway: TestClient, client: Redis) -> None:
    good = token(client, "producer")

    assert post(gateway, good) == (200, "default")
    assert post(gateway, "") == (401, "no_key")
    assert post(gateway, good[:-1]) == (401, "wrong_key")
    refused = gateway.post("/test/goals", json={"goal": "x"}, headers={"Authorization": f"Basic {good}"})
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    api_keys.revoke(client, good.split("_")[1])
    wait_until(lambda: post(gateway, good) == (401, "wrong_key"), what="the revoked key is forgotten")


def test_a_key_counts_for_a_second_after_it_is_revoked_and_its_look_counts_from_its_beginning(client: Redis) -> None:
    now = [1000.0]
    known = KnownKeys(lambda: now[0])
    shown = Credentials(token(client, "producer"))
    assert caller_at_hand(client, known, shown) is None

    (found,) = callers_of(client, known, [shown])
    api_keys.revoke(client, shown.token.split("_")[1])
    now[0] += LASTS_S * 0.99
    at_hand = caller_at_hand(client, known, shown)
    (looked_up,) = callers_of(client, known, [shown])
    now[0] += LASTS_S * 0.01
    over = caller_at_hand(client, known, shown)
    (refused,) = callers_of(client, known, [shown])

    assert isinstance(found, Access)
    assert isinstance(at_hand, Access)
    assert isinstance(looked_up, Access)
    assert found.key == at_hand.key == looked_up.key
    assert over is None
    assert isinstance(refused, Refusal)
    assert refused.problem.code == "wrong_key"


def test_neither_a_wrong_secret_nor_a_limited_rate_is_at_hand(client: Redis) -> None:
    known = KnownKeys()
    good, limited = token(client, "producer"), token(client, "producer", rate="2/m")
    asked = [Credentials(each) for each in (good, good[:-1], limited, limited, limited)]

    answers = callers_of(client, known, asked)

    codes = [each.problem.code if isinstance(each, Refusal) else "" for each in answers]
    assert codes == ["", "wrong_key", "", "", "rate_limited"]
    assert [bool(caller_at_hand(client, known, each)) for each in asked[:3]] == [True, False, False]
    assert caller_at_hand(client, known, Credentials(limited, counts=False))  # inside of a call that has counted
    (still,) = callers_of(client, known, [Credentials(limited)])
    assert isinstance(still, Refusal)
    assert still.problem.code == "rate_limited"


def test_a_key_does_what_it_has_the_right_to(gateway: TestClient, client: Redis) -> None:
    assert [post(gateway, token(client, right))[0] for right in ("producer", "admin")] == [200, 200]
    for right in ("controller", "answer", "operator", "viewer"):
        assert post(gateway, token(client, right)) == (403, "no_right")


def test_a_goal_is_of_its_keys_tenant_queue_and_repository(gateway: TestClient, client: Redis) -> None:
    of_acme = token(client, "producer", tenant="acme", queues=("gpu",))
    of_all = token(client, "producer", queues=("default", "gpu"))
    of_shop = token(client, "producer", repositories=("acme/shop",))
    step = {"step_id": "a", "title": "a", "intent": "a"}

    assert post(gateway, of_all, tenant="other") == (200, "other")
    assert post(gateway, of_all, queue="gpu") == (403, "wrong_queue")  # which is acme's
    assert post(gateway, of_all, queue="gpu", tenant="acme") == (200, "acme")
    assert post(gateway, of_acme, queue="gpu") == (200, "acme")
    assert post(gateway, of_acme, queue="gpu", tenant="other") == (403, "wrong_tenant")
    assert post(gateway, of_acme) == (403, "wrong_queue")
    assert post(gateway, of_acme, queue="gpu", steps=[step | {"queue": "default"}]) == (403, "wrong_queue")
    assert post(gateway, of_shop, context={"repo": "acme/shop"}) == (200, "default")
    assert post(gateway, of_shop, context={"repo": "acme/other"}) == (403, "wrong_repository")
    assert post(gateway, of_shop) == (403, "wrong_repository")


def test_a_key_above_its_rate_is_told_when_to_come_back(gateway: TestClient, client: Redis) -> None:
    limited = token(client, "producer", rate="2/m")

    assert [post(gateway, limited)[0] for _ in range(3)] == [200, 200, 429]
    refused = gateway.post("/test/goals", headers={"Authorization": f"Bearer {limited}"})
    assert 25 <= int(refused.headers["Retry-After"]) <= 30
    assert post(gateway, token(client, "producer")) == (200, "default")
