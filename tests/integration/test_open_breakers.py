"""When the breaker of a repository lets the next step through, told wherever a person sees the pause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schemas import codec
from schemas.times import rfc3339
from tasks.features.breakers.breaker import Breaker
from tests.support.roles import user
from tests.support.shop import HOME, PROBE_S, REPO, Shop
from worker.cli.commands.app import app
from worker.store import open_breakers, queries
from worker.store.clients import connect
from worker.store.keys import Partition

CI = Path(__file__).parents[2] / "docs" / "ci.md"


@pytest.fixture
def shop(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")
    return Shop(redis_url)


@pytest.fixture
def planner() -> Callable[..., str]:
    def run(*words: str) -> str:
        ran = CliRunner().invoke(app, words)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    return run


def known(shop: Shop) -> Breaker:
    return Breaker.decode(shop.redis.hget(HOME.breakers, f"default {REPO}"))


def test_a_plan_says_when_the_next_step_is_let_through(shop: Shop, planner: Callable[..., str]) -> None:
    plan_id = shop.break_base()[0]["plan_id"]
    shop.sweep()
    at = rfc3339(known(shop).at + 1000 * PROBE_S)

    for command in ("show", "explain"):
        assert f"paused: the breaker lets the next step through at {at}\n" in planner(command, plan_id)
        told = codec.loads(planner(command, plan_id, "--json"))["breaker"]
        assert (told["repo"], told["next_probe_at"], told["probe"]) == (REPO, at, None)
    assert f"Paused: `the breaker lets the next step through at {at}`" in planner("summary", plan_id)


def test_a_plan_says_whose_step_is_let_through_and_nothing_once_the_repository_goes_on(
    shop: Shop, planner: Callable[..., str]
) -> None:
    plan_id = shop.break_base()[0]["plan_id"]
    shop.sweep()
    spec = shop.let_through()

    assert f"paused: the breaker lets a step of {spec['plan_id']} through now\n" in planner("show", plan_id)

    shop.succeed(spec)
    shop.sweep()

    assert shop.planner.view(plan_id).breaker is None
    assert "the breaker" not in planner("show", plan_id)


def test_a_plan_that_its_breaker_does_not_pause_says_nothing_of_it(shop: Shop) -> None:
    shop.break_base()
    shop.sweep()

    assert shop.planner.view(shop.submit(tenant="globex")).breaker is None
    assert shop.planner.view(shop.submit(repo=None)).breaker is None


def test_who_may_not_read_breakers_is_told_the_rest_of_the_plan(shop: Shop, redis_url: str) -> None:
    plan_id = shop.break_base()[0]["plan_id"]
    shop.sweep()
    with user(shop.redis, "ci", redis_url, CI) as url:
        view = queries.plan(connect(url), 1, plan_id)

    assert view is not None
    assert "by breaker" in str(view.paused_by)
    assert view.breaker is None


def test_the_doctor_tells_every_repository_that_is_paused_and_finds_nothing_wrong_with_that(
    shop: Shop, planner: Callable[..., str]
) -> None:
    shop.break_base()
    shop.sweep()
    at = rfc3339(known(shop).due)

    told = codec.loads(planner("doctor", "--json"))["breakers"]
    assert [(each["tenant"], each["repo"], each["next_probe_at"]) for each in told] == [("default", REPO, at)]
    said = planner("doctor")
    assert f"paused   repository {REPO} of default\n" in said
    assert f"the breaker lets the next step through at {at}" in said
    assert "all is well" in said


def test_breakers_of_all_partitions_are_read_but_those_that_close(shop: Shop) -> None:
    shop.break_base()
    one = known(shop)
    for number, repo, closing in ((3, "acme/till", False), (5, "acme/cart", True)):
        other = replace(one, repo=repo, closing=closing)
        shop.redis.hset(Partition(number).breakers, other.series, other.encode())

    assert [each.repo for each in open_breakers.read_all(shop.redis, 8)] == [REPO, "acme/till"]
