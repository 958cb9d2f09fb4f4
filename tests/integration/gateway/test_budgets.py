"""Day budgets over HTTP."""

from __future__ import annotations

from typing import Any

from schemas.api_key import Right
from tests.support.gateway import running_gateway
from tests.support.planner import Planner


def test_day_budgets_tell_what_is_left_of_today(redis_url: str) -> None:
    limits: dict[str, Any] = {"tenant_day_tokens": 1_000_000, "repository_day_tokens": 500_000}
    planner = Planner(redis_url, **limits)
    with running_gateway(redis_url, **limits) as gateway:
        plan_id = planner.submit(tenant="acme", context={"repo": "acme/shop"})
        planner.report("look", plan_id, metrics={"tokens_used": 700})
        viewer, ours = gateway.client(Right.VIEWER), gateway.client(Right.VIEWER, tenant="acme")
        theirs = gateway.client(Right.VIEWER, tenant="other")

        every = viewer.get("/v1/budgets").json()["items"]
        assert [each["scope"] for each in every] == ["repository:acme/shop", "tenant:acme"]
        assert [each["limit"] for each in every] == [500_000, 1_000_000]
        assert all(700 <= each["spent"] < 200_000 for each in every)
        assert ours.get("/v1/budgets").json()["items"] == every[1:]
        assert theirs.get("/v1/budgets?tenant=acme&repo=acme/shop").json()["items"] == []
        assert viewer.get("/v1/budgets?tenant=new").json()["items"][0]["spent"] == 0
