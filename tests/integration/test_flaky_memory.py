"""Flaky tests on a real server: what one plan finds, the next knows, and `planner memory` shows and forgets it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tasks.record import replay as replays
from tasks.record.recorded_plan import RecordedPlan
from tests.support.engine import a_goal, container, drain, plan
from tests.support.plain import held_on
from tests.support.replay import export_of
from tests.support.roles import user
from tests.support.stored import P0, QUEUE
from worker.cli.commands.app import app
from worker.engine.goal_batch import GoalBatch
from worker.process.container import Container

FLAKY = "tests/test_cart.py::test_clock"
STEP = {"step_id": "tests", "title": "Tests", "intent": "Run all tests", "mode": "test", "verify": "pytest"}
Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> Run:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *words, **more: CliRunner().invoke(app, ["memory", *words], **more)


def goal(number: int, tenant: str = "default") -> dict[str, Any]:
    return a_goal(1, steps=[STEP], context={"repo": "acme/shop"}, goal_id=f"goal-{number}", tenant=tenant)


def spec_of(redis: Redis, plan_id: str) -> dict[str, Any]:
    """The attempt of the plan that is in flight."""
    entries: Any = redis.xrange(QUEUE)
    specs = [codec.loads(fields[b"data"]) for _, fields in entries]
    (found,) = [each for each in specs if each["plan_id"] == plan_id]
    return dict(found)


def report(here: Container, redis: Redis, plan_id: str, *failing: str) -> None:
    spec = spec_of(redis, plan_id)
    said: dict[str, Any] = {"success": not failing, "tests_passed": not failing, "touched_files": []}
    if failing:
        evidence = {"category": "TEST_REGRESSION", "top_failing_tests": failing}
        said |= {"failing_tests": failing, "failing_tests_complete": True, "failure_evidence": evidence}
    names = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
    redis.xadd(P0.outcomes, {"data": codec.dumps({**names, **said})})
    drain(here)


@pytest.mark.parametrize("way", ["together", "alone"])
def test_what_one_plan_finds_flaky_the_next_knows_until_it_is_forgotten(
    way: str, here: Container, redis: Redis, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "alone":
        monkeypatch.setattr(GoalBatch, "plan", lambda _, entries: list(entries))
    (first,) = plan(here, redis, goal(1))
    assert "memory" not in spec_of(redis, first)["context"]
    report(here, redis, first, FLAKY)
    report(here, redis, first)

    *_, second, other = plan(here, redis, goal(2), goal(3, tenant="other"))
    assert spec_of(redis, second)["context"]["memory"] == {"flaky": [FLAKY]}
    assert "memory" not in spec_of(redis, other)["context"]
    for one, known in ((second, [FLAKY]), (other, [])):
        shown = CliRunner().invoke(app, ["show", one]).stdout
        assert (f"told of tests that were flaky in earlier plans: {FLAKY}\n" in shown) is bool(known)
        assert codec.loads(CliRunner().invoke(app, ["show", one, "--json"]).stdout)["flaky_tests"] == known
    report(here, redis, second, FLAKY)
    report(here, redis, second)
    held = held_on(redis, P0, second)
    lines: Any = redis.lrange(P0.plan(second).log, 0, -1)
    held.log.extend(lines)
    assert held.fields["state"] == b"COMPLETED"
    assert codec.loads(held.fields["live"])["spent"]["failing_outcomes"] == 0
    found = replays.replay(RecordedPlan.read(export_of(held)))
    assert (found.result, found.parts, found.why) == (replays.Result.EQUAL, (), "")

    assert [each["repo"] for each in codec.loads(run("list", "--json").stdout)] == ["acme/shop"]
    shown = codec.loads(run("show", "acme/shop", "--json").stdout)
    assert (shown["flaky"], [each["times"] for each in shown["sightings"]]) == ([FLAKY], [2])
    kept = tmp_path / "shop.json"
    kept.write_text(run("export", "acme/shop").stdout)
    assert run("forget", "acme/shop", "--tenant", "other").exit_code == 3
    assert run("forget", "acme/shop", "--test", FLAKY).exit_code == 0
    assert run("forget", "acme/shop", "--test", FLAKY).exit_code == 3

    *_, third = plan(here, redis, goal(4))
    assert "memory" not in spec_of(redis, third)["context"]
    assert run("import", str(kept)).exit_code == 0
    *_, fourth = plan(here, redis, goal(5))
    assert spec_of(redis, fourth)["context"]["memory"] == {"flaky": [FLAKY]}


@pytest.mark.parametrize("way", ["together", "alone"])
def test_no_failing_test_of_a_goal_counts_as_flaky_however_many_it_has(
    way: str, here: Container, redis: Redis, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "alone":
        monkeypatch.setattr(GoalBatch, "plan", lambda _, entries: list(entries))
    kept = dated(datetime.now(UTC).date(), FLAKY)
    assert run("import", "-", "--tenant", "default", "--repo", "acme/shop", input=kept).exit_code == 0
    own = {"repo": "acme/shop", "failing_tests": [*(f"tests/test_cart.py::test_{n}" for n in range(24)), FLAKY]}

    (first,) = plan(here, redis, {**goal(1), "context": own})
    assert "memory" not in spec_of(redis, first)["context"]
    report(here, redis, first, FLAKY)

    assert codec.loads(held_on(redis, P0, first).fields["live"])["spent"]["failing_outcomes"] == 1


def test_an_operator_can_have_nothing_remembered(redis_url: str, redis: Redis) -> None:
    with container(redis_url, remember_flaky_tests=False) as here:
        (first,) = plan(here, redis, goal(1))
        report(here, redis, first, FLAKY)
        report(here, redis, first)

    assert not list(redis.scan_iter("*:recall:tests*"))


ONE = '{"format": "planner.memory", "format_version": 1, "tenant": "a", "repo": "b", "sightings": [{"day": "x"}]}'


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "planner.memory", "format_version": 2}', ONE])
def test_what_is_no_export_is_refused_in_a_sentence(text: str, run: Run, redis: Redis) -> None:
    refused = run("import", "-", input=text)

    assert refused.exit_code == 2
    assert "This is no export of `planner memory export`" in refused.output
    assert not list(redis.scan_iter("*:recall:tests*"))


def dated(day: date | str, test: str = "t") -> str:
    return ONE.replace('{"day": "x"}', f'{{"day": "{day}", "test": "{test}", "times": 1}}')


@pytest.mark.parametrize("day", ["9999-12-31", datetime.now(UTC).date() + timedelta(days=3)])
def test_a_day_that_is_still_to_come_is_refused(day: date | str, run: Run, redis: Redis) -> None:
    refused = run("import", "-", input=dated(day))

    assert refused.exit_code == 2
    assert f"This is no export of `planner memory export`: {day} is still to come." in refused.output
    assert not list(redis.scan_iter("*:recall:tests*"))


def test_today_and_tomorrow_are_imported_since_somewhere_it_is_tomorrow(run: Run, redis: Redis) -> None:
    today = datetime.now(UTC).date()

    assert [run("import", "-", input=dated(today + timedelta(days=n))).exit_code for n in (0, 1)] == [0, 0]


def test_an_operator_sees_what_is_remembered_and_is_told_which_account_may_change_it(
    here: Container, redis: Redis, run: Run, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = plan(here, redis, goal(1))
    report(here, redis, first, FLAKY)
    report(here, redis, first)
    with user(redis, "operator", redis_url) as url:
        monkeypatch.setenv("PLANNER_REDIS_URL", url)
        exported = run("export", "acme/shop")
        refused = [run("forget", "acme/shop"), run("import", "-", "--repo", "new", input=exported.stdout)]
    with user(redis, "planner", redis_url) as url:
        monkeypatch.setenv("PLANNER_REDIS_URL", url)
        done = [run("import", "-", "--repo", "new", input=exported.stdout), run("forget", "acme/shop")]

    assert [each.exit_code for each in refused] == [1, 1]
    for each, what in zip(refused, ("remove entries from memory", "add entries to memory"), strict=True):
        assert f"The user operator of Redis may not {what}. That takes the planner's own account" in each.stderr
    assert [each.exit_code for each in done] == [0, 0]
