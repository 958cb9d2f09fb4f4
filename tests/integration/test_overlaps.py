"""Overlapping plans on a real server, from goals that come together to workers that are killed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tests.conftest import running_worker, wait_until
from tests.support.engine import PLAIN, a_goal, calls_of, container, drain, plan
from tests.support.messages import answer, publish, specs
from tests.support.planner import Planner
from tests.support.stored import P0, state
from worker.cli.commands.app import app
from worker.process.container import Container
from worker.store import keys

SHOP: dict[str, Any] = {"context": {"repo": "acme/shop"}}


@pytest.fixture
def planner(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Planner:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")
    return Planner(redis_url)


def cli(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def shown(plan_id: str) -> dict[str, Any]:
    found: dict[str, Any] = codec.loads(cli("show", plan_id, "--json").stdout)
    return found


def wanting(number: int, *files: str, **more: Any) -> dict[str, Any]:
    """A goal whose one step may patch these files."""
    step = {"step_id": "s", "title": "t", "intent": "i", "allowed_files": files}
    return {"goal": "Do it", "goal_id": f"g-{number}", "allowed_files": files, "steps": [step], **SHOP, **more}


def claimed(redis: Redis) -> list[bytes]:
    return list(redis.scan_iter("planner:{0}:claims*"))


def held(redis: Redis, plan_id: str) -> str:
    live = codec.loads(redis.hget(P0.plan(plan_id).plan, "live") or b"")
    return str(live.get("held", ""))


def test_goals_that_are_taken_together_wait_for_each_other(here: Container, redis: Redis) -> None:
    first, second, other, third = plan(
        here,
        redis,
        wanting(1, "a.py", overlap="wait"),
        wanting(2, "a.py", "b.py", overlap="wait"),
        wanting(3, "c.py", overlap="wait"),
        wanting(4, "b.py", overlap="wait"),
    )

    assert [state(redis, each) for each in (first, second, other, third)] == [
        "EXECUTING",
        "READY",
        "EXECUTING",
        "READY",
    ]
    assert held(redis, second) == f"waiting for a.py: {first}"
    assert held(redis, third) == f"waiting for b.py: {second}"


def test_a_goal_with_patterns_waits_for_what_is_claimed_in_their_folders(here: Container, redis: Redis) -> None:
    known = {"repo": "acme/shop", "language": "python", "files": ["src/a.py", "src/b.py"], "test_command": "pytest"}
    wide = {"goal": "Fix it", "goal_id": "wide", "allowed_files": ["src/**"], "context": known}

    made: list[str] = []
    goals = (wanting(1, "src/shop/new.py"), wide, wanting(3, "docs/a.md"), wanting(4, "src/z.py"))
    for goal in goals:  # one after the other
        made += [each for each in plan(here, redis, {**goal, "overlap": "wait"}) if each not in made]
    first, second, other, third = made

    assert [state(redis, each) for each in (first, second, other, third)] == [
        *("EXECUTING", "READY", "EXECUTING", "READY"),
    ]
    assert held(redis, second) == f"waiting for src/shop/new.py: {first}"
    assert held(redis, third) == f"waiting for src/: {second}"


def test_goals_with_patterns_that_are_taken_together_wait_for_each_other(here: Container, redis: Redis) -> None:
    known = {"repo": "acme/shop", "language": "python", "files": ["src/a/1.py", "src/b/1.py"], "test_command": "pytest"}
    wide = {"goal": "Fix it", "overlap": "wait", "context": known}

    first, second, third = plan(
        here,
        redis,
        {**wide, "goal_id": "a", "allowed_files": ["src/a/**"]},
        {**wide, "goal_id": "b", "allowed_files": ["src/b/**"]},
        {**wide, "goal_id": "c", "allowed_files": ["src/**"]},
    )

    assert [state(redis, each) for each in (first, second, third)] == ["EXECUTING", "EXECUTING", "READY"]


def test_the_plain_end_of_a_plan_gives_its_files_back_and_the_next_goes_on(here: Container, redis: Redis) -> None:
    first, second = plan(here, redis, a_goal(2, overlap="wait", **SHOP), wanting(2, "src/f1.py", overlap="wait"))
    calls = []
    for _ in range(2):
        (spec,) = specs(redis)
        calls.append(calls_of(redis, here, answer(spec)))
    assert [each[PLAIN] for each in calls] == [1, 1]
    assert state(redis, first) == "COMPLETED"

    here.context(0).engine.sweep("test")

    (spec,) = specs(redis)
    assert spec["plan_id"] == second
    redis.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
    drain(here)
    assert state(redis, second) == "COMPLETED"
    assert claimed(redis) == []


def test_what_overlaps_is_shown_wherever_a_plan_is(planner: Planner) -> None:
    first = planner.submit(goal_id="g-1", **SHOP)
    second = planner.submit(goal_id="g-2", **SHOP)
    third = planner.submit(goal_id="g-3", overlap="wait", **SHOP)

    assert shown(first)["overlaps"] == []
    assert shown(second)["overlaps"] == [{"file": "b.py", "plans": [first], "circle": False}]
    assert shown(third)["overlaps"] == [{"file": "b.py", "plans": [first, second], "circle": False}]
    assert shown(third)["paused_by"] == f"waiting for b.py: {second}"
    assert f"waiting for b.py: {second}" in cli("show", third).stdout
    assert f"overlap: b.py was claimed by {first}, {second}" in cli("show", third).stdout
    assert f"overlap: b.py was claimed by {first}, {second}" in cli("explain", third).stdout
    assert f"overlap: b.py was claimed by {first}" in cli("summary", second).stdout
    events: Any = planner.client.xrange(P0.events)
    told = [codec.loads(fields[b"data"]) for _, fields in events if b".plan.overlaps." in fields[b"type"]]
    assert [(each["plan_id"], each["overlap"]) for each in told] == [(second, "allow"), (third, "wait")]


def test_a_goal_that_refuses_overlaps_is_told_the_file_and_the_plan(planner: Planner) -> None:
    first = planner.submit(goal_id="g-1", **SHOP)
    second = planner.submit(goal_id="g-2", overlap="refuse", **SHOP)

    assert shown(second)["state"] == "REJECTED"
    assert planner.client.hget(keys.goal_id("g-2"), "reason") == b"overlap"
    assert f"b.py is claimed by {first}." in cli("show", second).stdout


def test_the_option_of_submit_is_the_goals_field(planner: Planner) -> None:
    said = cli("submit", "--goal", "Fix it", "--file", "b.py", "--overlap", "wait", "--no-fill", "--json")

    assert said.exit_code == 0
    sent: Any = planner.client.xrange(keys.GOALS)
    ((_, fields),) = sent
    assert codec.loads(fields[b"data"])["overlap"] == "wait"
    assert cli("submit", "--goal", "Fix it", "--file", "b.py", "--overlap", "perhaps").exit_code == 2


def test_of_plans_that_are_created_at_once_by_many_workers_one_starts(redis_url: str, redis: Redis) -> None:
    """Each claim rests on what was read of the others: who was overtaken reads again."""
    count = 24
    for number in range(count):
        publish(redis, wanting(number, "a.py", f"{number}.py", overlap="wait"))

    def work() -> None:
        with container(redis_url) as here:
            while here.goal_consumer.drain():
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    states = [state(redis, plan_id) for plan_id in _plans(redis)]
    assert sorted(states) == ["EXECUTING"] + ["READY"] * (count - 1)
    (place,) = [key for key in claimed(redis) if key != P0.claims.encode()]
    found: Any = redis.hget(place.decode(), "a.py")
    queue = found.decode().split()
    assert len(queue) == count
    assert [each[0] for each in queue] == ["p"] + ["?"] * (count - 1)


def _plans(redis: Redis) -> list[str]:
    found: Any = redis.zrange(P0.plans, 0, -1)
    return [each.decode() for each in found]


@pytest.mark.outages
def test_a_real_worker_takes_plans_of_one_file_one_after_the_other(redis_url: str, tmp_path: Path) -> None:
    count = 4
    with running_worker(redis_url, tmp_path / "worker.log") as worker:
        for number in range(count):
            publish(worker.redis, wanting(number, "a.py", overlap="wait"))
        wait_until(lambda: len(_plans(worker.redis)) == count, what="every goal is planned")
        done: list[str] = []
        for _ in range(count):
            (spec,) = wait_until(lambda: [each for each in specs(worker.redis) if each["plan_id"] not in done])
            worker.redis.xadd(P0.outcomes, answer(spec))  # type: ignore[arg-type]
            done.append(spec["plan_id"])
            wait_until(lambda: state(worker.redis, done[-1]) == "COMPLETED", what="it ends")
        assert sorted(done) == sorted(_plans(worker.redis))
        assert claimed(worker.redis) == []
