"""The regression firewall on a real server: what one plan leaves, the next is told of, whichever way it is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from tasks.features.failed_changes import KEPT_S, MOST, MOST_KEPT, name_of
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Result, replay
from tests.support.engine import a_goal, chain, container, drain, plan
from tests.support.messages import publish
from tests.support.plain import held_on
from tests.support.replay import export_of
from tests.support.stored import P0, QUEUE
from worker.cli.commands.app import app
from worker.engine.goal_batch import GoalBatch
from worker.process.container import Container

BASE = "a" * 40
DIFF = "d" * 64


@pytest.fixture
def here(redis_url: str, redis: Redis) -> Iterator[Container]:
    with container(redis_url, breaker_plans=0) as made:  # many plans fail alike here
        yield made


def goal(number: int = 0, **about: Any) -> dict[str, Any]:
    steps = [{**step, "verify": "pytest"} for step in chain(1)]
    context = {"repo": "acme/shop", "base_sha": BASE, **about.pop("context", {})}
    limits = {"identical_failures": 2, "consecutive_failures": 1000, "failing_outcomes": 1000}
    return a_goal(1, steps=steps, context=context, limits=limits, goal_id=f"goal-{number}", **about)


def queued(redis: Redis) -> list[Any]:
    found: Any = redis.xrange(QUEUE)
    return list(found)


def spec_of(redis: Redis, plan_id: str) -> dict[str, Any]:
    """The attempt of the plan that is in flight."""
    specs = [codec.loads(fields[b"data"]) for _, fields in queued(redis)]
    (found,) = [each for each in specs if each["plan_id"] == plan_id]
    return dict(found)


def fail(here: Container, redis: Redis, spec: dict[str, Any]) -> None:
    report(redis, spec, DIFF)
    drain(here)


def report(redis: Redis, spec: dict[str, Any], diff: str) -> None:
    evidence = {"category": "TEST_REGRESSION", "stack_trace_head": f"assert {diff}"}
    said = {"success": False, "tests_passed": False, "touched_files": spec["allowed_files"], "diff_hash": diff}
    names = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
    redis.xadd(P0.outcomes, {"data": codec.dumps({**names, **said, "failure_evidence": evidence})})


@pytest.mark.parametrize("way", ["together", "alone"])
def test_a_plan_is_told_of_what_failed_in_another_one_and_halts_at_once_where_it_fails_again(
    way: str, here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "alone":
        monkeypatch.setattr(GoalBatch, "plan", lambda _, entries: list(entries))
    (first,) = plan(here, redis, goal(1))
    assert "failed_diffs" not in spec_of(redis, first)["context"]
    fail(here, redis, spec_of(redis, first))

    *_, second, other = plan(here, redis, goal(2), goal(3, tenant="other"))

    assert "failed_diffs" not in spec_of(redis, other)["context"]
    spec = spec_of(redis, second)
    assert spec["context"]["failed_diffs"] == [DIFF]
    fail(here, redis, spec)
    held = held_on(redis, P0, second)
    lines: Any = redis.lrange(P0.plan(second).log, 0, -1)
    held.log.extend(lines)
    halt = codec.loads(held.fields["halt"])
    assert (halt["rule"], halt["evidence"]["diff_hash"]) == ("identical_failure", DIFF)
    found = replay(RecordedPlan.read(export_of(held)))
    assert (found.result, found.parts, found.why) == (Result.EQUAL, (), "")


def test_what_failed_is_listed_and_shown_and_no_plan_is_told_of_it_once_it_is_forgotten(
    here: Container, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "160")

    def memory(*words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, ["memory", *words, "--json"])
        assert done.exit_code == code, done.output
        return codec.loads(done.stdout) if not code else None

    (first,) = plan(here, redis, goal(1))
    fail(here, redis, spec_of(redis, first))
    (shown,) = memory("show", "acme/shop")["failed_changes"]
    assert (shown["base_sha"], shown["diff_hash"]) == (BASE, DIFF)
    assert memory("show", "acme/shop", "--tenant", "other")["failed_changes"] == []
    assert [each["failed_changes"] for each in memory("list")] == [0]  # no plan of it has ended
    fail(here, redis, spec_of(redis, first))
    assert [(each["repo"], each["tests"], each["failed_changes"]) for each in memory("list")] == [("acme/shop", 0, 1)]
    assert memory("list", "--tenant", "other") == []
    text = CliRunner().invoke(app, ["memory", "show", "acme/shop"]).stdout
    assert f"failed on {BASE[:12]}  {DIFF}" in text

    memory("forget", "acme/shop", "--test", "test_a", code=3)
    memory("forget", "acme/shop", "--changes", "--test", "test_a", code=2)
    memory("forget", "acme/shop", "--tenant", "other", code=3)
    forgotten = memory("forget", "acme/shop", "--changes")
    assert (forgotten["forgotten"], forgotten["forgotten_changes"]) == (0, 1)

    *_, second = plan(here, redis, goal(2))
    assert "failed_diffs" not in spec_of(redis, second)["context"]
    assert not list(redis.scan_iter("*:kept:*"))
    fail(here, redis, spec_of(redis, second))
    assert memory("forget", "acme/shop")["forgotten_changes"] == 1
    memory("forget", "acme/shop", code=3)


def test_an_operator_can_have_nothing_remembered(redis_url: str, redis: Redis) -> None:
    with container(redis_url, remember_failed_diffs=False) as here:
        (first,) = plan(here, redis, goal(1))
        fail(here, redis, spec_of(redis, first))

    assert not list(redis.scan_iter("*:kept:*"))


@pytest.mark.outages
@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_what_is_remembered_stays_bounded_however_many_plans_fail(count: int, here: Container, redis: Redis) -> None:
    """The newest are kept, of which a plan is told the newest; half of the plans are of a base that is no more."""
    name = P0.kept(name_of("default", "acme/shop", BASE) or "")
    for first in range(0, count, 100):
        bases = [{"base_sha": BASE if number % 2 else f"{number:040x}"} for number in range(first, first + 100)]
        plan(here, redis, *[goal(first + at, context=each) for at, each in enumerate(bases)])
        for number, (entry, fields) in enumerate(queued(redis), first):
            report(redis, codec.loads(fields[b"data"]), f"{number:064x}")
            redis.xdel(QUEUE, entry)  # its retry is not waited for
        drain(here)

    assert redis.hlen(name) == redis.llen(name + ":order") == MOST_KEPT
    assert 0 < redis.ttl(name) <= KEPT_S
    *_, last = plan(here, redis, goal(count))
    assert len(spec_of(redis, last)["context"]["failed_diffs"]) == MOST


def test_what_somebody_else_wrote_there_is_passed_over(here: Container, redis: Redis) -> None:
    name = P0.kept(name_of("default", "acme/shop", BASE) or "")
    redis.hset(name, mapping={b"\xff\xfe": b"1", f"{BASE} x y": "1", f"{BASE} {'v' * 8} {DIFF}": "soon"})

    publish(redis, goal(1))
    (made,) = plan(here, redis)

    assert "failed_diffs" not in spec_of(redis, made)["context"]
