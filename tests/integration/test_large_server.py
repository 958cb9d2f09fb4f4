"""What people ask of a server with many plans is answered without a walk over its keys, or over all of its plans."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tests.support.stored import P0
from tests.tools.fill_plans import fill
from worker.cli.commands import plans
from worker.cli.commands.app import app
from worker.doctor import rounds
from worker.store import deployment, functions, queries

PLANS = 2000


@pytest.fixture
def large(redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> Redis:
    """A server with PLANS plans, of whose commands nothing was counted yet."""
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    functions.load(redis)
    deployment.join(redis, 1)
    fill(redis_url, PLANS)
    redis.config_resetstat()
    return redis


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def calls(redis: Redis, *commands: str) -> int:
    """How often the server was asked these commands."""
    stats: Any = redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {}).get("calls", 0) for command in commands)


@pytest.mark.parametrize("command", ["queues", "controllers", "memory list", "plans", "partitions", "doctor"])
def test_no_look_walks_over_all_keys_or_plans(large: Redis, command: str) -> None:
    result = run(*command.split(), "--json")

    assert result.exception is None or result.exit_code == 1, result.output
    assert calls(large, "scan", "zscan", "keys") == 0
    assert calls(large, "hmget", "hgetall") < 6 * rounds.SAMPLE


def test_the_queue_of_many_plans_is_found(large: Redis) -> None:
    (queue,) = codec.loads(run("queues", "--json").stdout)

    assert (queue["queue"], queue["claimed"]) == ("default", 0)


def test_the_doctor_looks_at_a_sample_unless_it_is_asked_for_all(large: Redis) -> None:
    some = codec.loads(run("doctor", "--json").stdout)
    assert some["plans"] == rounds.SAMPLE
    assert some["notes"] == [
        f"This was a sample of {PLANS + 1:,} plans; planner doctor --all checks every plan and every key."
    ]

    large.set(P0.plan("plan_00-gone").plan + ":steps", "of a plan that is gone")
    every = codec.loads(run("doctor", "--all", "--json").stdout)
    assert every["plans"] == PLANS + 1
    assert "keys.orphan" in {one["check"] for one in every["findings"]}


def test_words_are_looked_for_so_long_and_then_from_there_on(large: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    found_first: Any = large.zrange(P0.plans, 0, 0)
    oldest = found_first[0].decode()
    large.hset(P0.plan(oldest).plan, "text", "Mend the needle")
    large.zadd(P0.plans, {oldest: 1})
    monkeypatch.setattr(queries, "MOST_TEXTS", PLANS // 2)
    monkeypatch.setattr(plans, "ENOUGH_S", 0.0)

    said = run("plans", "--text", "needle").output
    assert "Only plans made since" in said
    cursor = said.partition("--cursor ")[2].split()[0]
    found = codec.loads(run("plans", "--text", "needle", "--cursor", cursor, "--json").stdout)
    found["items"] += codec.loads(run("plans", "--text", "needle", "--cursor", found["next_cursor"], "--json").stdout)[
        "items"
    ]
    assert [one["plan_id"] for one in found["items"]] == [oldest]

    monkeypatch.setattr(plans, "ENOUGH_S", 60.0)
    assert [one["plan_id"] for one in codec.loads(run("plans", "--text", "needle", "--json").stdout)] == [oldest]
