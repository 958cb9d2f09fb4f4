"""A gateway answers over HTTP: that it lives, that it is ready, and what it refuses."""

from __future__ import annotations

from tests.support.gateway import Gateway


def test_a_gateway_lives_and_is_ready_without_a_key(gateway: Gateway) -> None:
    anybody = gateway.with_token(None)

    assert anybody.get("/healthz").json() == anybody.get("/readyz").json() == {"ok": True}


def test_what_does_not_exist_is_told_as_a_problem(gateway: Gateway) -> None:
    answer = gateway.with_token(None).get("/v1/nothing")

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["code"] == "not_found"
