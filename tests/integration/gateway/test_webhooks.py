"""Webhooks over HTTP: the right status for what is wrong, in the order of size, signature, JSON and rules."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from redis import Redis

from tests.support import webhooks
from tests.support.gateway import Gateway, running_gateway
from tests.support.webhooks import by_github, by_standard, pipeline, workflow_run
from worker.store import keys

MB = 1024 * 1024


@pytest.fixture
def gateway(redis_url: str, redis: Redis, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway that hears the webhooks of three sources."""
    with running_gateway(redis_url, webhooks_file=webhooks.write(tmp_path)) as running:
        yield running


def test_a_delivery_needs_no_key_and_becomes_a_goal(gateway: Gateway) -> None:
    headers, raw = by_github("workflow_run", workflow_run())
    http = gateway.with_token(None)

    answer = http.post("/v1/webhooks/github", content=raw, headers=headers)
    again = http.post("/v1/webhooks/github", content=raw, headers=headers)

    assert answer.status_code == again.status_code == 202
    assert answer.json() == {"goal_id": answer.json()["goal_id"], "ignored": None}
    assert again.json()["ignored"].startswith("duplicate")
    assert answer.headers["location"] == str(httpx.URL("/v1/goals", params={"goal_id": answer.json()["goal_id"]}))
    assert gateway.redis.xlen(keys.GOALS) == 1


def test_what_is_wrong_has_its_status_and_nothing_is_published(gateway: Gateway) -> None:
    http = gateway.with_token(None)
    signed, raw = by_github("workflow_run", workflow_run())
    no_json = by_github("workflow_run", b"{")
    deep = by_github("workflow_run", b"[" * 5000 + b"]" * 5000)
    late = by_standard(pipeline(), int(time.time()) - 400)
    large = b" " * (MB + 1)
    cases = [
        ("github", raw, signed | {"x-hub-signature-256": "sha256=00"}, 401, "wrong_signature"),
        ("github", b"{", signed, 401, "wrong_signature"),
        ("github", deep[1], signed, 401, "wrong_signature"),
        ("github", raw, {}, 401, "wrong_signature"),
        ("github", b"", {}, 401, "wrong_signature"),
        ("github", no_json[1], no_json[0], 400, "invalid_json"),
        ("github", deep[1], deep[0], 400, "invalid_json"),
        ("github", b" " * (25 * MB + 1), signed, 413, "too_large"),
        ("gitlab", large, {"x-gitlab-token": webhooks.SECRET}, 413, "too_large"),
        ("gitlab", late[1], late[0], 401, "wrong_signature"),
        ("standard", late[1], late[0], 401, "wrong_signature"),
        ("nobody", raw, signed, 404, "not_found"),
        ("github", raw, signed | {"content-encoding": "gzip"}, 415, "compressed"),
        ("github", raw, signed | {"sec-fetch-site": "cross-site"}, 403, "foreign_origin"),
    ]

    for source, body, headers, status, code in cases:
        answer = http.post(f"/v1/webhooks/{source}", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert webhooks.SECRET not in answer.text
    assert gateway.redis.keys("*goals*") == []


def test_a_secret_that_cannot_be_read_is_told_to_the_operator(gateway: Gateway, tmp_path: Path) -> None:
    headers, raw = by_github("workflow_run", workflow_run())
    (tmp_path / "secret").unlink()

    answer = gateway.with_token(None).post("/v1/webhooks/github", content=raw, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (503, "webhooks_unavailable")
    assert str(tmp_path) not in answer.text
    assert "retry-after" in answer.headers
