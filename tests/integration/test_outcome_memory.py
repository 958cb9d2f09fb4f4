"""What attempts came to on a real server: a worker records it, and `planner memory` lists, shows and forgets it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.goal import Goal
from schemas.times import DAY_MS
from tasks.features.outcome_memory import where
from tasks.record import replay as replays
from tasks.record.recorded_plan import RecordedPlan
from tests.support.engine import a_goal, container, drain, plan
from tests.support.plain import held_on
from tests.support.replay import export_of
from tests.support.stored import P0, QUEUE
from worker.cli.commands.app import app
from worker.engine.goal_batch import GoalBatch
from worker.process.container import Container

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> Run:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, words)


def goal(number: int, repo: str | None = "acme/shop", **more: Any) -> dict[str, Any]:
    step = {"step_id": "a", "title": "Mend the [red]sum[/red]", "intent": "Mend it", "allowed_files": ["src/f0.py"]}
    steps = [{**step, "verify": "pytest", "mode": "patch"}]
    return {**a_goal(1, steps=steps, context={"repo": repo}, goal_id=f"goal-{number}"), "goal": "Fix the sum", **more}


def report(here: Container, redis: Redis, plan_id: str, category: str = "") -> None:
    entries: Any = redis.xrange(QUEUE)
    specs = [codec.loads(fields[b"data"]) for _, fields in entries]
    (spec,) = [each for each in specs if each["plan_id"] == plan_id]
    said: dict[str, Any] = {"success": not category, "touched_files": ["src/f0.py"], "metrics": {"tokens_used": 100}}
    if category:
        said |= {"failure_evidence": {"category": category}}
    names = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
    redis.xadd(P0.outcomes, {"data": codec.dumps({**names, **said})})
    drain(here)


def shown(run: Run, repo: str = "acme/shop") -> list[dict[str, Any]]:
    return list(codec.loads(run("memory", "show", repo, "--json").stdout)["attempts"])


@pytest.mark.parametrize("way", ["together", "alone"])
def test_what_attempts_came_to_is_recorded_listed_and_forgotten(
    way: str, here: Container, redis: Redis, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "alone":
        monkeypatch.setattr(GoalBatch, "plan", lambda _, entries: list(entries))
    first, second, beside, _ = plan(here, redis, goal(1), goal(2), goal(3, "acme/web"), goal(4, None))
    report(here, redis, first)
    report(here, redis, second, "TYPE_ERROR")
    report(here, redis, beside)

    (one,) = shown(run)
    assert (one["title"], one["attempts"], one["succeeded"]) == ("Mend the [red]sum[/red]", 2, 1)
    assert (one["failed"], one["tokens"], one["kind"]) == ({"TYPE_ERROR": 1}, 200, "fix_test")
    listed = codec.loads(run("memory", "list", "--json").stdout)
    assert [(each["repo"], each["attempts"]) for each in listed] == [("acme/shop", 2), ("acme/web", 1)]
    assert one["fingerprint"] in run("memory", "list").stdout
    assert "1 of 2, TYPE_ERROR 1  Mend the [red]sum[/red]  src/f0.py" in run("memory", "show", "acme/shop").stdout

    *_, third = plan(here, redis, goal(5))
    (similar,) = codec.loads(run("show", third, "--json").stdout)["memory"]["similar"]
    assert (similar["attempts"], similar["succeeded"], similar["failed"]) == (2, 1, {"TYPE_ERROR": 1})
    told = "similar before: Mend the [red]sum[/red] (src/f0.py): 1 of 2 succeeded, TYPE_ERROR 1"
    assert told in run("show", third).stdout
    assert told in run("explain", third).stdout
    assert codec.loads(run("show", first, "--json").stdout)["memory"] is None

    held = held_on(redis, P0, third)
    lines: Any = redis.lrange(P0.plan(third).log, 0, -1)
    held.log.extend(lines)
    found = replays.replay(RecordedPlan.read(export_of(held)))
    assert (found.result, found.parts, found.why) == (replays.Result.EQUAL, (), "")

    assert run("memory", "forget", one["fingerprint"], "--tenant", "other").exit_code == 3
    assert run("memory", "forget", one["fingerprint"], "--test", "tests/test_a.py::test_a").exit_code == 2
    assert run("memory", "forget", "acme/shop", "--changes").exit_code == 3
    assert len(shown(run)) == 1
    assert run("memory", "forget", one["fingerprint"]).stdout == "Forgotten: 2 attempts.\n"
    assert (shown(run), len(shown(run, "acme/web"))) == ([], 1)
    assert run("memory", "forget", "acme/web").exit_code == 0
    assert run("memory", "list").stdout == "Nothing is remembered of any repository.\n"


def test_a_plan_begins_with_the_steps_whose_like_succeeded_and_is_replayed_so(
    here: Container, redis: Redis, run: Run
) -> None:
    about = {"intent": "Do it", "mode": "patch", "verify": "pytest"}
    steps = [
        {**about, "step_id": "a", "title": "Mend the sum of the cart", "allowed_files": ["src/f0.py"]},
        {**about, "step_id": "b", "title": "Price of shirts", "allowed_files": ["src/f1.py"]},
    ]
    sent = {**goal(1), "allowed_files": ["src/f0.py", "src/f1.py"], "steps": steps}
    name, today = where(Goal.model_validate(sent)), time.time_ns() // 1_000_000 // DAY_MS
    for category in ("LINT_ERROR", ""):
        title, file = ("Mend the sum of the cart", "src/f0.py") if category else ("Price of shirts", "src/f1.py")
        record = [today, "fix_test", title, [file], ["pytest"], 1, *filter(None, [category])]
        redis.lpush(P0.memory(name or ""), *[codec.dumps(record)] * 5)

    (made,) = plan(here, redis, sent)
    shown = codec.loads(run("show", made, "--json").stdout)
    assert [step["step_id"] for step in shown["steps"] if step["step_id"] in "ab"] == ["b", "a"]
    assert shown["memory"]["order"] == {"by": "likely", "steps": ["b", "a"]}
    assert "order by memory, likely first: b, a" in run("explain", made).stdout
    held = held_on(redis, P0, made)
    lines: Any = redis.lrange(P0.plan(made).log, 0, -1)
    held.log.extend(lines)
    found = replays.replay(RecordedPlan.read(export_of(held)))
    assert (found.result, found.parts, found.why) == (replays.Result.EQUAL, (), "")


def test_nothing_is_recorded_where_that_is_switched_off(redis_url: str, redis: Redis, run: Run) -> None:
    with container(redis_url, remember_outcomes=False) as here:
        (first,) = plan(here, redis, goal(1))
        report(here, redis, first)
        held = held_on(redis, P0, first)
        assert held.fields["state"] == b"COMPLETED"
        assert b"memory" not in held.fields["head"]
    assert codec.loads(run("memory", "list", "--json").stdout) == []
