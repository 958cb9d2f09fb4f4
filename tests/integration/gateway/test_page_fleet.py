"""The fleet on the page: who waits, who works, what a day still allows, and who sees which of that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from redis import Redis

from schemas.api_key import Right
from schemas.times import rfc3339
from tasks.features.breakers.breaker import Breaker
from tests.support.event_reading import EventReader, tell
from tests.support.gateway import Gateway, running_gateway
from tests.support.planner import Planner
from tests.support.shop import HOME, REPO, Shop
from worker.store import functions, owners
from worker.store.keys import Partition

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def gateway(redis_url: str) -> Iterator[Gateway]:
    with running_gateway(redis_url, tenant_day_tokens=1_000_000) as running:
        yield running


@pytest.fixture
def planner(gateway: Gateway) -> Planner:
    return Planner(gateway.settings.redis_url, tenant_day_tokens=1_000_000)


def claim(gateway: Gateway, queue: str, **info: Any) -> None:
    """Have a controller claim a step of a queue."""
    body = {"claim_id": f"c-{queue}", "queues": [queue], "controller": f"ctl-{queue}", "wait_s": 5, "info": info}
    answer = gateway.client(Right.CONTROLLER, queues=(queue,)).post("/v1/steps:claim", json=body)
    assert len(answer.json()["steps"]) == 1, answer.text


def fleet(gateway: Gateway, *rights: Right, **of: Any) -> httpx.Response:
    return gateway.client(*rights, **of).get("/fleet")


def test_a_fleet_without_anything_says_what_to_start(gateway: Gateway) -> None:
    answer = fleet(gateway, Right.VIEWER)

    assert answer.status_code == 200
    for said in ("No step was queued yet", "planner controller --agent", "No worker owns a partition"):
        assert said in answer.text
    assert fleet(gateway, Right.PRODUCER).status_code == 403


def test_queues_controllers_budgets_and_workers_are_told(
    gateway: Gateway, planner: Planner, long_leases: float
) -> None:
    plan_id = planner.submit()
    planner.submit(queue="gpu", tenant="acme")
    claim(gateway, "default", host=HOSTILE, version="1.2", done=7, failed=[HOSTILE])
    owners.register(gateway.redis, "host-a:1:x")
    owners.hold(gateway.redis, "host-a:1:x", {0: "take"})

    said = fleet(gateway, Right.VIEWER).text

    rows = re.findall(r"<tr>(.*?)</tr>", said, re.DOTALL)
    (gpu,) = [row for row in rows if ">gpu<" in row]
    assert "no readers" in gpu
    assert f'<a href="/plans/{plan_id}#step-look">look</a>' in said
    assert "&lt;script&gt;" in said
    assert said.count("<script") == 1
    assert "tenant acme" in said
    assert "host-a:1:x" in said


def test_each_partition_is_told_with_its_owner_and_what_waits_there_and_each_worker_with_its_version(
    redis: Redis, redis_url: str, long_leases: float
) -> None:
    functions.load(redis)
    with running_gateway(redis_url, partitions=4) as gateway:
        owners.register(redis, "host-1-a")  # it counts for as long as a lease, which a gateway may take to start
        owners.register(redis, "host-2-b")
        owners.hold(redis, "host-1-a", {0: "take", 2: "take"})
        owners.hold(redis, "older-3-c", {3: "take"})
        seconds, _ = redis.time()
        for late_s in (65, 2):
            redis.xadd(Partition(1).outcomes, {"data": "{}"}, id=f"{1000 * (seconds - late_s)}-0")

        said = fleet(gateway, Right.VIEWER).text
        of_tenant = fleet(gateway, Right.VIEWER, tenant="acme").text

    workers, partitions = (rows_of(said, section) for section in ("workers", "partitions"))
    ours = version("planner-worker")
    assert workers == [
        ["host-1-a", ours, "2 of 4 partitions"],
        ["host-2-b", ours, "none of 4 partitions"],
        ["older-3-c", "an older one", "1 of 4 partitions"],
    ]
    assert [row[:3] for row in partitions] == [
        ["Partition 0", "host-1-a", "0"],
        ["Partition 1", "no worker owns it", "2"],
        ["Partition 2", "host-1-a", "0"],
        ["Partition 3", "older-3-c", "0"],
    ]
    assert not any(row[3][0].isdigit() for row in partitions[::2])
    assert partitions[1][3].startswith("1 min")
    assert "No worker owns partition 1. Outcomes wait there" in said
    assert "host-1-a" not in of_tenant


def rows_of(html: str, section: str) -> list[list[str]]:
    """The texts of the cells of a section's table, row by row."""
    (found,) = re.findall(rf'<section id="{section}".*?</section>', html, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", found.partition("<tbody>")[2], re.DOTALL)
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[re.sub("<.*?>", "", cell).strip() for cell in row] for row in cells]


def test_the_fleet_follows_commands_and_breakers_beside_steps_and_plans(gateway: Gateway) -> None:
    viewer = gateway.client(Right.VIEWER)
    (address,) = re.findall('data-events="(.*?)"', viewer.get("/fleet").text)
    happened = ("command.obeyed", "repository.paused", "step.done", "plan.ready")

    with viewer.stream("GET", address) as answer:
        events = EventReader(answer)
        assert next(events.lines).startswith("retry: ")
        for what in happened:
            tell(gateway.redis, what)
        assert [each.event for each in events.take(4)] == [f"dev.planner.{what}.v1" for what in happened]


def test_however_often_the_fleet_is_looked_at_no_walk_over_all_keys_is_made_and_new_queues_are_shown(
    gateway: Gateway, planner: Planner
) -> None:
    viewer = gateway.client(Right.VIEWER)
    planner.submit()
    walks = calls(gateway, "scan")
    assert "no readers" in viewer.get("/fleet").text

    for queue in ("gpu", "tpu", "npu"):
        planner.submit(queue=queue)
        claim(gateway, queue)
        assert f">{queue}<" in viewer.get("/fleet").text
        assert queue in [each["queue"] for each in viewer.get("/v1/queues").json()["items"]]
        assert [queue] in [each["queues"] for each in viewer.get("/v1/controllers").json()["items"]]
    assert calls(gateway, "scan") == walks


def calls(gateway: Gateway, command: str) -> int:
    """How often the server was sent this command."""
    found: Any = gateway.redis.info("commandstats")
    return int(found.get(f"cmdstat_{command}", {}).get("calls", 0))


def test_a_key_of_a_tenant_sees_its_own_queues_controllers_and_budget(gateway: Gateway, planner: Planner) -> None:
    gateway.key(Right.CONTROLLER, tenant="initech", queues=("initech-q",))
    theirs = planner.submit(queue="initech-q", tenant="initech")
    planner.submit(tenant="acme")
    claim(gateway, "default")

    said = fleet(gateway, Right.VIEWER, tenant="acme").text

    assert "tenant acme" in said
    assert "ctl-default" in said
    for other in ("initech", theirs, "Workers"):
        assert other not in said


def test_who_works_for_another_tenant_is_busy_elsewhere_to_a_key_of_a_tenant(
    gateway: Gateway, planner: Planner
) -> None:
    theirs = planner.submit(tenant="initech")
    claim(gateway, "default")

    said, all_said = (fleet(gateway, Right.VIEWER, **of).text for of in ({"tenant": "acme"}, {}))

    assert "ctl-default" in said
    assert "busy elsewhere" in said
    assert "idle for" not in said
    assert theirs not in said
    assert theirs in all_said


def test_a_repository_that_its_breaker_pauses_stands_there_with_its_next_probe_for_who_may_see_it(
    gateway: Gateway,
) -> None:
    shop = Shop(gateway.settings.redis_url)
    plan_id = shop.break_base(tenant="acme")[0]["plan_id"]
    shop.sweep()
    due = Breaker.decode(shop.redis.hget(HOME.breakers, f"acme {REPO}")).due
    next_probe = f'The breaker lets the next step through at <time datetime="{rfc3339(due)}"'

    said = fleet(gateway, Right.OPERATOR).text

    assert f"<b>Paused: repository {REPO} of acme</b>" in said
    assert said.count(next_probe) == 1
    assert f"/acts/resume?scope=repository&amp;target={quote(REPO, safe='')}" in said
    assert next_probe in fleet(gateway, Right.VIEWER, tenant="acme").text
    assert REPO not in fleet(gateway, Right.VIEWER, tenant="initech").text
    assert next_probe in gateway.client(Right.VIEWER).get(f"/plans/{plan_id}").text
