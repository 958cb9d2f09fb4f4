"""Day budgets across partitions, through the real queue: together they start no more than the day allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from tests.bench import fleet
from tests.conftest import RunningWorker, connect, running_worker, wait_until
from worker.cli.commands.app import app
from worker.store import functions, keys
from worker.store.keys import CONTROLLERS, Partition, partition_of

PARTITIONS = 2
DAY_TOKENS = 20_000
STEP_TOKENS = 1000  # of each step of fleet.goal
OVERRUN = 300  # of each attempt, beyond what it held


@pytest.fixture(scope="module")
def worker(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    """A worker for two partitions and a small budget, on the emptied server; none of it is begun near midnight."""
    while (left := 86_400 - time.time() % 86_400) < 60:  # a day that ends in the middle would be another test
        time.sleep(left)
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
    log: Path = tmp_path_factory.mktemp("quota") / "worker.log"
    limits = {"PLANNER_PARTITIONS": str(PARTITIONS), "PLANNER_TENANT_DAY_TOKENS": str(DAY_TOKENS)}
    with running_worker(server_url, log, **limits) as worker:
        yield worker


def publish(redis: Redis, tenant: str, plans: int) -> list[str]:
    """Publish goals of four steps for a tenant, spread over the partitions; returns the ids of their plans."""
    for number in range(plans):
        goal = codec.loads(fleet.goal(number, 4, chains=4)) | {"goal_id": f"{tenant}-{number}", "tenant": tenant}
        redis.xadd(keys.GOALS, {"data": codec.dumps(goal | {"context": {"repo": f"{tenant}/shop-{number}"}})})

    def planned() -> list[str]:
        found: list[Any] = [
            redis.hmget(keys.goal_id(f"{tenant}-{n}", tenant), "verdict", "plan_id") for n in range(plans)
        ]
        return [plan.decode() for verdict, plan in found if verdict == b"PLANNED"]

    wait_until(lambda: len(planned()) == plans, what="planned")
    return planned()


def live(redis: Redis, plan_id: str) -> dict[str, Any]:
    found: Any = redis.hget(Partition(partition_of(plan_id, PARTITIONS)).plan(plan_id).plan, "live")
    return dict(codec.loads(found))


def answering(redis: Redis, begun: list[dict[str, Any]], used: int) -> Callable[[], None]:
    """Make a round of controllers: every spec that waits is answered, having used so many tokens."""

    def turn() -> None:
        for number in range(PARTITIONS):
            queue = Partition(number).steps("default")
            reply: Any = redis.xreadgroup(CONTROLLERS, "fleet", {queue: ">"}) if redis.exists(queue) else ()
            for spec in [codec.loads(fields[b"data"]) for _, found in reply for _, fields in found]:
                begun.append(spec)
                said = {"step_id": spec["step_id"], "success": True, "tests_passed": True, "attempt": spec["attempt"]}
                said |= {"plan_id": spec["plan_id"], "lease": spec["lease"], "metrics": {"tokens_used": used}}
                redis.xadd(spec["reply_to"], {"data": codec.dumps(said)})

    return turn


def settled(redis: Redis, plans: list[str]) -> bool:
    """Whether each plan has ended or is held, and nothing is in flight any more."""
    states = [live(redis, plan) for plan in plans]
    return all("ended" in each["times"] or each.get("held") for each in states) and not any(
        each["reserved"]["tokens"] for each in states
    )


def warnings(redis: Redis, scope: str) -> list[dict[str, Any]]:
    """What was told of a day budget that runs low."""
    streams: list[Any] = [redis.xrange(Partition(number).events) for number in range(PARTITIONS)]
    kind = b"dev.planner.budget.low.v1"
    low = [codec.loads(fields[b"data"]) for found in streams for _, fields in found if fields[b"type"] == kind]
    return [told for told in low if told.get("scope") == scope]


def planner(worker: RunningWorker, *words: str) -> tuple[int, str]:
    env = {"PLANNER_REDIS_URL": worker.url, "PLANNER_PARTITIONS": str(PARTITIONS)}
    result = CliRunner().invoke(app, [*words], env=env)
    return result.exit_code, result.output


def run_dry(worker: RunningWorker, plans: list[str], begun: list[dict[str, Any]], used: int = STEP_TOKENS) -> None:
    turn = answering(worker.redis, begun, used)

    def over() -> bool:
        turn()
        return settled(worker.redis, plans)

    wait_until(over, what="every plan has ended or is held")


def finish(worker: RunningWorker, plans: list[str], begun: list[dict[str, Any]]) -> None:
    turn = answering(worker.redis, begun, STEP_TOKENS)

    def over() -> bool:
        turn()
        return all("ended" in live(worker.redis, plan)["times"] for plan in plans)

    wait_until(over, what="every plan has ended")


def test_two_partitions_together_start_no_more_than_the_day_allows_until_it_is_topped_up(
    worker: RunningWorker,
) -> None:
    redis, begun = worker.redis, list[dict[str, Any]]()
    plans = publish(redis, "acme", 8)
    assert len({partition_of(plan, PARTITIONS) for plan in plans}) == PARTITIONS

    run_dry(worker, plans, begun)
    assert sum(spec["limits"]["tokens"] for spec in begun) <= DAY_TOKENS
    assert sum(spec["limits"]["tokens"] for spec in begun) >= DAY_TOKENS - STEP_TOKENS * PARTITIONS * 2
    held = [plan for plan in plans if "ended" not in live(redis, plan)["times"]]
    assert held
    assert live(redis, held[0])["held"] == "the day budget of tenant:acme is used up"
    assert "day budget" in codec.loads(planner(worker, "show", held[0], "--json")[1])["paused_by"]

    (told,) = warnings(redis, "tenant:acme")
    assert (told["budget"], told["limit"]) == ("tokens", DAY_TOKENS)
    assert 0.8 * DAY_TOKENS <= told["spent"] <= DAY_TOKENS

    assert planner(worker, "top-up", "--tenant", "acme", "--tokens", "50000") == (0, "top_up: done\n")
    finish(worker, plans, begun)

    assert len(begun) >= 32
    assert all(live(redis, plan)["counts"]["DONE"] == 4 for plan in plans)


def test_attempts_that_use_more_than_they_held_cost_the_day_no_more_than_that(worker: RunningWorker) -> None:
    redis, begun = worker.redis, list[dict[str, Any]]()
    plans = publish(redis, "greedy", 8)

    run_dry(worker, plans, begun, used=STEP_TOKENS + OVERRUN)

    spent = sum(live(redis, plan)["spent"]["tokens"] for plan in plans)
    assert spent == len(begun) * (STEP_TOKENS + OVERRUN)
    held = sum(spec["limits"]["tokens"] for spec in begun)
    assert held <= DAY_TOKENS
    most = sum(sorted((STEP_TOKENS + OVERRUN - spec["limits"]["tokens"] for spec in begun), reverse=True)[:32])
    assert spent <= DAY_TOKENS + most


def test_a_tenant_without_tokens_does_not_hold_another(worker: RunningWorker) -> None:
    begun: list[dict[str, Any]] = []
    run_dry(worker, publish(worker.redis, "spent", 8), begun)
    plans = publish(worker.redis, "rich", 1)

    finish(worker, plans, begun)


def test_a_plan_yet_to_come_of_a_tenant_without_tokens_waits(worker: RunningWorker) -> None:
    redis, begun = worker.redis, list[dict[str, Any]]()
    run_dry(worker, publish(redis, "late", 8), begun)
    goal = codec.loads(fleet.goal(0, 1)) | {"goal_id": "late-comer", "tenant": "late"}
    redis.xadd(keys.GOALS, {"data": codec.dumps(goal)})
    wait_until(lambda: redis.hget(keys.goal_id("late-comer", "late"), "verdict") == b"PLANNED", what="planned")
    found: Any = redis.hget(keys.goal_id("late-comer", "late"), "plan_id")

    wait_until(lambda: live(redis, found.decode()).get("held"), what="held")

    assert planner(worker, "top-up", "--tenant", "late", "--tokens", "100000")[0] == 0
    finish(worker, [found.decode()], begun)


def test_a_top_up_that_comes_twice_counts_once(worker: RunningWorker) -> None:
    redis = worker.redis
    order = {"command_id": "more", "command": "top_up", "scope": "tenant", "target": "twice", "value": {"tokens": 70}}
    for _ in range(2):
        redis.xadd(keys.COMMANDS, {"data": codec.dumps(order | {"actor": "ada", "reason": "why"})})

    def told() -> list[str]:
        events: Any = redis.xrange(Partition(0).events)
        return [fields[b"type"].decode() for _, fields in events if b'"command_id":"more"' in fields[b"data"]]

    wait_until(lambda: len(told()) == 2, what="both are answered")
    day = int(time.time() // 86_400)
    call = ("FCALL", functions.GRANT, 1, keys.day_grants(day, "tenant:twice"), 0, 10**6, 60)
    assert functions.call(redis, *call) == 70
