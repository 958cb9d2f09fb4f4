"""What fleets spent and what became of their plans: kept by real ends of plans, told by door, command and page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from schemas import codec
from schemas.api_key import Right
from schemas.times import DAY_MS
from tests.support import sums
from tests.support.gateway import Gateway, running_gateway
from tests.support.planner import Planner
from worker.cli.commands.app import app
from worker.store.keys import Partition

HOSTILE = "<script>alert(1)</script>"
STEP = [{"step_id": "s", "title": "t", "intent": "i", "allowed_files": ["b.py"], "retry_limit": 0}]


@pytest.fixture
def gateway(redis_url: str) -> Iterator[Gateway]:
    with running_gateway(redis_url) as running:
        yield running


def end(planner: Planner, repo: str | None, tenant: str = "default", *, success: bool = True, **spent: Any) -> str:
    """Have a plan of one step end; returns its id."""
    plan_id = planner.submit(steps=STEP, tenant=tenant, context={"repo": repo} if repo else {})
    said: dict[str, Any] = {"metrics": {"tokens_used": 500, "cost_usd": 0.25, **spent}}
    if success:
        said |= {"touched_files": ["b.py"]}
    else:
        said |= {"success": False, "failure_evidence": {"category": "COMPILATION_ERROR"}}
    planner.report("s", plan_id, **said)
    assert planner.view(plan_id).state == ("COMPLETED" if success else "HALTED")
    return plan_id


def stats(client: httpx.Client, **query: Any) -> Any:
    answer = client.get("/v1/stats", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_ends_of_plans_are_summed_by_hour_day_tenant_and_repository(gateway: Gateway, planner: Planner) -> None:
    plan_id = end(planner, "acme/shop")
    end(planner, "acme/shop", success=False, cost_usd=1.5)
    end(planner, None, tenant="globex", tokens_used=7)
    viewer = gateway.client(Right.VIEWER)
    known = {"cancelled": 0, "rejected": 0}

    for by in ("hour", "day"):
        found = stats(viewer, by=by)
        assert found["total"] == {
            "completed": 2,
            "halted": 1,
            "halted_by": {"cannot_revise": 1},
            **known,
            "tokens": 1007,
            "cost_usd": 2.0,
            "steps": 2,
            "failures": 1,
        }
        assert sum(row["completed"] for row in found["items"]) == 2
    repos = {(row["tenant"], row["repo"]): row["tokens"] for row in stats(viewer, by="repo")["items"]}
    assert repos == {("default", "acme/shop"): 1000, ("globex", None): 7}
    assert [row["tenant"] for row in stats(viewer, by="tenant")["items"]] == ["default", "globex"]
    assert stats(viewer, repo="acme/shop", tenant="globex")["items"] == []
    assert viewer.get(f"/v1/plans/{plan_id}").json()["cost_usd"] == 0.25


def test_a_key_sees_the_sums_of_its_tenant_and_its_repositories_alone(gateway: Gateway, planner: Planner) -> None:
    end(planner, "acme/shop", tenant="acme")
    end(planner, "acme/api", tenant="acme")
    end(planner, "globex/web", tenant="globex")
    today = Partition(0).sums("day", int(time.time()) // 86400)
    rest = {"* *": "completed=100", "acme *": "completed=5"}
    gateway.redis.hset(today, mapping=rest)  # type: ignore[arg-type]
    tenant = gateway.client(Right.VIEWER, tenant="acme")
    bound = gateway.client(Right.VIEWER, tenant="acme", repositories=("acme/api",))

    assert {row["repo"] for row in stats(tenant, by="repo", since="9d")["items"]} == {"acme/shop", "acme/api", "*"}
    assert stats(tenant, tenant="globex")["items"] == []
    assert [row["repo"] for row in stats(bound, by="repo")["items"]] == ["acme/api"]
    assert stats(bound, repo="acme/shop")["total"]["completed"] == 0
    page = tenant.get("/spend").text
    assert "globex" not in page
    assert ">acme/shop<" in page
    assert ">acme/shop<" not in bound.get("/spend").text
    assert stats(gateway.client(Right.VIEWER, tenant="*"))["items"] == []
    assert gateway.client(Right.PRODUCER).get("/v1/stats").status_code == 403


def test_a_command_prints_the_same_by_redis_and_over_http(gateway: Gateway, redis_url: str) -> None:
    sums.seed(gateway.redis, [("default", "acme/shop"), ("default", None)], days=40)
    key = gateway.key(Right.VIEWER)

    def run(*words: str, **env: str) -> str:
        both = {"PLANNER_REDIS_URL": None, "PLANNER_URL": None, "PLANNER_API_KEY": None, "COLUMNS": "200", **env}
        answer = CliRunner().invoke(app, ["stats", *words], env=both)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    for words in (["--by", "repo"], ["--since", "30d", "--json"], ["--since", "24h", "--by", "hour"]):
        ours = run(*words, PLANNER_REDIS_URL=redis_url)
        theirs = run(*words, PLANNER_URL=gateway.url, PLANNER_API_KEY=key)
        if "--json" in words:
            found = [codec.loads(said)["items"] for said in (ours, theirs)]
            assert found[0] == found[1]
            assert len(found[0]) == 31
        else:
            assert ours == theirs
            assert "total" in ours
    wrong = CliRunner().invoke(app, ["stats", "--by", "week"], env={"PLANNER_REDIS_URL": redis_url})
    assert (wrong.exit_code, "is none of hour, day, tenant, repo" in wrong.stderr) == (2, True)


def test_the_page_draws_what_was_spent(gateway: Gateway) -> None:
    viewer = gateway.client(Right.VIEWER)
    assert "No plan ended in the last 24 hours" in viewer.get("/spend").text
    sums.seed(gateway.redis, [("default", "acme/shop"), ("default", HOSTILE)])

    for window, bars in (("24h", 25), ("7d", 29), ("90d", 91)):
        said = viewer.get("/spend", params={"window": window}).text
        assert said.count('<g class="column">') in (4 * bars, 4 * (bars - 1)), window
        assert 'id="plot-cost"' in said
        assert "&lt;script&gt;alert(1)" in said
        assert said.count("<script") == 1
    one = viewer.get("/spend", params={"window": "7d", "repo": "acme/shop"}).text
    assert "alert(1)" not in one
    wrong = viewer.get("/spend", params={"window": "1y"})
    assert (wrong.status_code, "This cannot be shown" in wrong.text) == (422, True)


def test_sums_of_others_are_not_even_read(gateway: Gateway, planner: Planner) -> None:
    end(planner, "acme/shop")
    number = int(time.time() * 1000) // DAY_MS
    planner.client.hset(Partition(0).sums("day", number), "globex acme/other", "completed=many")
    assert stats(gateway.client(Right.VIEWER), by="day", tenant="default")["total"]["completed"] == 1
