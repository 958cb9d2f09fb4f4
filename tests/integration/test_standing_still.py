"""Why a plan does not move, as `planner show`, `watch` and `submit --wait end` print it."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from schemas.command import Command
from tests.conftest import wait_until
from tests.support.engine import a_goal, drain, plan
from tests.support.messages import answer, report
from tests.support.shop import Shop
from worker.cli import standing, waiting
from worker.cli.commands.app import app
from worker.process.container import Container
from worker.store import publishing
from worker.store.keys import CONTROLLERS, Partition

BOTS = Partition(0).steps("bots")
SHOP = {"context": {"repo": "acme/shop"}}


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, server_url: str) -> Callable[..., Any]:
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, list(words))


def still(planner: Callable[..., Any], plan_id: str) -> dict[str, Any] | None:
    view = codec.loads(planner("show", plan_id, "--json").stdout)
    found: dict[str, Any] | None = view["standing_still"]
    drawn = planner("show", plan_id).stdout
    if found and not (view["paused_by"] or view["waiting"]):  # which are drawn elsewhere
        assert f"Nothing moves: {found['detail']}" in drawn
    else:
        assert "Nothing moves" not in drawn
    return found


def take(redis: Redis) -> dict[str, Any]:
    found: Any = redis.xreadgroup(CONTROLLERS, "ctl-1", {BOTS: ">"}, count=1)
    spec: dict[str, Any] = codec.loads(found[0][1][0][1][b"data"])
    return spec


def test_a_queue_that_no_controller_reads_is_named_and_nothing_once_one_reads_it(
    here: Container, redis: Redis, planner: Callable[..., Any]
) -> None:
    first, second = plan(here, redis, *[{**a_goal(1), "queue": "bots"} for _ in range(2)])

    found = still(planner, first)
    assert found is not None
    assert (found["reason"], found["detail"]) == ("no_controller", "no controller reads queue `bots`")
    assert found["since"]

    assert re.search(r"s-0 +queued", planner("show", first).stdout)

    spec = take(redis)
    assert still(planner, spec["plan_id"]) is None  # it runs
    assert re.search(r"s-0 +ACTIVE", planner("show", spec["plan_id"]).stdout)
    assert still(planner, second if spec["plan_id"] == first else first) is None  # it waits for its turn


def test_a_step_that_was_handed_back_is_named_with_the_reason(
    here: Container, redis: Redis, planner: Callable[..., Any]
) -> None:
    (plan_id,) = plan(here, redis, {**a_goal(1), "queue": "bots"})
    report(redis, answer(take(redis), success=False, released={"reason": "no pnpm here"}, touched_files=[]))
    drain(here)

    found = still(planner, plan_id)
    assert found is not None
    assert found["reason"] == "handed_back"
    assert found["detail"].startswith("s-0 was handed back: no pnpm here; the next attempt of s-0 begins at 20")
    assert re.search(r"s-0 +waits", planner("show", plan_id).stdout)
    assert found["since"]


def test_the_pause_before_a_retry_says_when_that_begins(
    here: Container, redis: Redis, planner: Callable[..., Any]
) -> None:
    (plan_id,) = plan(here, redis, {**a_goal(1), "queue": "bots"})
    evidence = {"category": "TEST_TIMEOUT", "stack_trace_head": "timed out"}
    report(redis, answer(take(redis), success=False, tests_passed=False, failure_evidence=evidence, touched_files=[]))
    drain(here)

    found = still(planner, plan_id)
    assert found is not None
    assert found["reason"] == "backoff"
    assert found["detail"].startswith("the next attempt of s-0 begins at 20")


def test_a_paused_queue_is_named_with_who_paused_it(here: Container, redis: Redis, planner: Callable[..., Any]) -> None:
    order = {"command": "pause", "command_id": "q", "scope": "queue", "target": "bots", "actor": "ada", "reason": "x"}
    publishing.publish_command(redis, 1, Command.model_validate(order), "test")
    here.bulk_commands.drain()
    (plan_id,) = plan(here, redis, {**a_goal(1), "queue": "bots"})

    found = still(planner, plan_id)
    assert found is not None
    assert found["reason"] == "paused"
    assert found["detail"].startswith("queue bots is paused by ada")


def test_a_pause_is_named_with_its_author(here: Container, redis: Redis, planner: Callable[..., Any]) -> None:
    (plan_id,) = plan(here, redis, {**a_goal(1), "queue": "bots"})
    order = {"command": "pause", "command_id": "c", "scope": "plan", "plan_id": plan_id, "actor": "ada", "reason": "x"}
    redis.xadd(Partition(0).commands, {"data": codec.dumps(order)})

    def is_paused() -> bool:
        drain(here)  # which looks for commands now and then
        return bool(codec.loads(planner("show", plan_id, "--json").stdout)["paused"])

    wait_until(is_paused, what="the plan is paused")
    found = still(planner, plan_id)
    assert found is not None
    assert (found["reason"], found["detail"]) == ("paused", "paused by ada: x")


def test_an_approval_is_a_wait_for_a_person(here: Container, redis: Redis, planner: Callable[..., Any]) -> None:
    (plan_id,) = plan(here, redis, a_goal(1, approvals=["LOW", "MED", "HIGH"]))

    found = still(planner, plan_id)
    assert found is not None
    assert (found["reason"], found["detail"]) == ("person", f"May step s-0 start? Then: planner approve {plan_id} s-0")


def test_a_plan_that_waits_for_the_files_of_another_says_for_which(
    here: Container, redis: Redis, planner: Callable[..., Any]
) -> None:
    first, second = plan(here, redis, *[a_goal(1, overlap="wait", **SHOP) for _ in range(2)])

    found = still(planner, second)
    assert found is not None
    assert (found["reason"], found["detail"]) == ("files", f"waiting for src/f0.py: {first}")


def test_a_breaker_is_named_with_what_tripped_it(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    shop = Shop(redis_url)
    plan_id = shop.break_base()[0]["plan_id"]
    shop.sweep()

    found = codec.loads(CliRunner().invoke(app, ["show", plan_id, "--json"]).stdout)["standing_still"]
    assert found["reason"] == "breaker"
    assert "failures of" in found["detail"]


def test_a_plan_that_is_followed_prints_once_why_it_does_not_move(
    here: Container, redis: Redis, planner: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "LOOK_S", 0.2)
    goal = codec.dumps({**a_goal(1), "queue": "bots"}).decode()
    with ThreadPoolExecutor(1) as pool:
        submitted = pool.submit(
            CliRunner().invoke, app, ["submit", "-", "--wait", "end", "--timeout", "3s"], input=goal
        )
        while not submitted.done():
            here.goal_consumer.drain()
        waited = submitted.result()

    assert waited.exit_code == 4
    assert waited.stderr.count("Nothing moves: no controller reads queue `bots`") == 1


def test_a_goal_that_no_worker_plans_is_followed_with_the_command_that_starts_one(
    here: Container, planner: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "UNPLANNED_S", 0.1)

    waited = planner("submit", "--goal", "x", "-f", "a.py", "--no-fill", "--wait", "end", "--timeout", "1s")

    assert waited.exit_code == 4
    assert waited.stderr.count("Nothing moves: no worker has planned the goal. `planner worker` starts one") == 1


def test_a_goal_that_is_to_be_delivered_is_sent_with_a_note_where_no_controller_delivers(
    here: Container, redis: Redis, planner: Callable[..., Any]
) -> None:
    words = ("submit", "--goal", "x", "-f", "a.py", "--no-fill", "--deliver", "push", "--json")

    (note,) = codec.loads(planner(*words).stdout)["notes"]
    assert note.startswith("No controller reads the queue `deliver`")
    assert planner("review").stdout.strip() == "Nothing waits for a person."
    assert codec.loads(planner("review", "--json").stdout) == {"items": [], "minutes": 0}

    stream = Partition(0).steps("deliver")
    redis.xgroup_create(stream, CONTROLLERS, mkstream=True)
    redis.xreadgroup(CONTROLLERS, "ctl-1", {stream: ">"})
    assert not codec.loads(planner(*words).stdout).get("notes")
