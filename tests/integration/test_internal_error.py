"""A defect that is met while a plan is made is a verdict at once, by an id that the log has too; on a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.api_key import Right
from schemas.goal import Goal
from tasks.base.errors import Overtaken, UnknownCommand
from tasks.handlers import goals
from tasks.rules.strategy import Setting
from tasks.toolchain.catalogue import Catalogue
from tests.support.engine import a_goal, container, plan
from tests.support.gateway import Gateway
from tests.support.messages import publish
from tests.support.planner import Planner, deciding
from tests.support.stored import dead, plans, state
from worker.cli.commands.app import app
from worker.engine import goal_batch, goal_consumer
from worker.engine.plan_creation import PlanCreation
from worker.process import draft_threads
from worker.process.container import Container
from worker.settings.settings import Settings
from worker.store import dead as dead_streams
from worker.store import functions, goal_record, keys, queries
from worker.store.dead import Filter
from worker.streams.fair_inbox import FairInbox

GOAL = {**a_goal(1), "goal_id": "ci-1"}
FAILURE_ID = re.compile(r"the id ([0-9a-f]{12}) ")


class Killed(BaseException):
    """The worker is no more."""


def fail(*_: object, **__: object) -> Any:
    raise UnknownCommand("`node --check` is not in the tool catalogue.")


@contextmanager
def broken(where: Any = goals, name: str = "plan", how: Callable[..., Any] = fail) -> Iterator[None]:
    """Have the planner fail while the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, how)
        yield


def record(redis: Redis, name: str = "ci-1", tenant: str = "default") -> dict[str, str]:
    found: Any = redis.hgetall(keys.goal_id(name, tenant))
    return {field.decode(): value.decode() for field, value in found.items()}


def failure_id(sentence: str) -> str:
    found = FAILURE_ID.search(sentence)
    assert found, sentence
    return found[1]


def bury(here: Container, redis: Redis) -> str:
    """Have a goal fail; returns its plan."""
    with broken():
        (plan_id,) = plan(here, redis, GOAL)
    return plan_id


# --- the verdict ---


@pytest.mark.parametrize("name", ["plan", "clean_goal", "validate", "accept"])
@pytest.mark.parametrize("tenant", ["default", "acme"])
def test_a_goal_that_meets_a_defect_is_rejected_at_once_by_an_id_that_the_log_has(
    here: Container, redis: Redis, caplog: pytest.LogCaptureFixture, name: str, tenant: str
) -> None:
    with broken(name=name):
        (plan_id,) = plan(here, redis, {**GOAL, "tenant": tenant})

    found, (buried,) = record(redis, tenant=tenant), dead(redis, keys.GOALS_DEAD)
    (error,) = codec.loads(found["errors"])
    view = queries.plan(redis, 1, plan_id)
    (line,) = (each for each in caplog.records if each.message == "goal failed")
    assert (found["verdict"], found["reason"], found["plan_id"]) == ("REJECTED", "internal_error", plan_id)
    assert (found["state"], found["halt_reason"]) == ("REJECTED", "internal_error")
    assert view is not None
    assert view.halt is not None
    assert (view.state, view.halt.reason, view.halt.evidence["errors"]) == ("REJECTED", "internal_error", [error])
    assert (buried["problem"]["code"], buried["problem"]["detail"]) == ("internal_error", error["message"])
    assert codec.loads(buried["data"])["goal_id"] == "ci-1"
    assert vars(line)["failure_id"] == failure_id(error["message"])
    assert vars(line)["plan_id"] == plan_id
    assert line.exc_info
    assert redis.xlen(keys.GOALS) == redis.exists(keys.GOALS_FAILURES) == 0
    assert redis.hmget(keys.GOALS_STATS, "REJECTED", "dead:internal_error") == [b"1", b"1"]


def test_a_goal_whose_rejected_plan_cannot_be_kept_either_has_its_verdict(here: Container, redis: Redis) -> None:
    with broken(), broken(goals, "refuse"):
        plan(here, redis, GOAL)

    assert record(redis)["reason"] == "internal_error"
    assert plans(redis) == []
    assert len(dead(redis, keys.GOALS_DEAD)) == 1


def test_a_goal_that_cannot_even_be_looked_at_is_dead_and_has_its_verdict(here: Container, redis: Redis) -> None:
    with broken(goal_consumer, "read_goal"), broken(goal_batch, "read_goal"):
        plan(here, redis, GOAL)

    assert (record(redis)["verdict"], record(redis)["reason"]) == ("REJECTED", "internal_error")
    assert [each["problem"]["code"] for each in dead(redis, keys.GOALS_DEAD)] == ["internal_error"]


@pytest.mark.parametrize("error", [ResponseError("READONLY"), OSError(28, "No space"), MemoryError(), Overtaken()])
def test_what_may_pass_is_tried_again(redis: Redis, redis_url: str, error: Exception) -> None:
    def passing(*_: object) -> Any:
        raise error

    with container(redis_url, max_failures=3) as here:
        with broken(how=passing):
            plan(here, redis, GOAL)
            tried: Any = redis.hvals(keys.GOALS_FAILURES)
        here.goal_consumer.take_pending()

    assert [int(count) for count in tried] == [1]
    assert record(redis)["verdict"] == "PLANNED"
    assert dead(redis, keys.GOALS_DEAD) == []


# --- what takes its place ---


def test_the_same_goal_that_is_sent_again_is_planned_by_the_repaired_planner(here: Container, redis: Redis) -> None:
    rejected = bury(here, redis)

    _, made = plan(here, redis, GOAL)

    found = record(redis)
    assert (found["verdict"], found["plan_id"]) == ("PLANNED", made)
    assert found.keys().isdisjoint({"errors", "state", "halt_rule"})
    assert (state(redis, rejected), state(redis, made)) == ("REJECTED", "EXECUTING")


def test_a_corrected_goal_takes_its_place_too(here: Container, redis: Redis) -> None:
    bury(here, redis)

    plan(here, redis, {**GOAL, "goal": "Do it in another way"})

    assert record(redis)["verdict"] == "PLANNED"
    assert len(dead(redis, keys.GOALS_DEAD)) == 1


@pytest.mark.parametrize("goal_id", ["ci-1", None])
def test_the_dead_entry_is_planned_once_it_is_replayed(here: Container, redis: Redis, goal_id: str | None) -> None:
    entry = publish(redis, {**GOAL, "goal_id": goal_id})
    with broken():
        plan(here, redis)
    ((found,),) = dead_streams.until_now(redis, 1, Filter(cause="internal_error"))

    dead_streams.replay(redis, [found])
    plan(here, redis)

    assert record(redis, goal_id or entry)["verdict"] == "PLANNED"


@pytest.mark.parametrize(
    ("where", "name"), [(PlanCreation, "reject"), (goal_record, "refuse"), (FairInbox, "dead_letter")]
)
def test_a_worker_that_dies_while_it_rejects_leaves_the_goal_to_another(
    here: Container, redis: Redis, redis_url: str, where: Any, name: str
) -> None:
    def die(*_: object) -> Any:
        raise Killed

    publish(redis, GOAL)
    with broken(), broken(where, name, die), suppress(Killed):
        here.goal_consumer.drain()
    assert redis.xlen(keys.GOALS) == 1

    with container(redis_url) as other:
        other.goal_consumer.recover(0)

    assert redis.xlen(keys.GOALS) == 0
    is_rejected, buried = record(redis)["verdict"] == "REJECTED", dead(redis, keys.GOALS_DEAD)
    assert [each["problem"]["code"] for each in buried] == ["internal_error"] * is_rejected
    assert record(redis).get("errors", "").count("the id") == is_rejected
    assert state(redis, record(redis)["plan_id"]) == ("REJECTED" if is_rejected else "EXECUTING")


def test_a_plan_that_was_made_before_the_defect_goes_on(here: Container, redis: Redis) -> None:
    with broken(PlanCreation, "_count_source"):
        (plan_id,) = plan(here, redis, {**GOAL, "kind": "campaign", "steps": None, "campaign": {"objective": "Do it"}})

    assert record(redis)["verdict"] == "PLANNED"
    assert state(redis, plan_id) == "EXECUTING"
    assert dead(redis, keys.GOALS_DEAD) == []


# --- drafters ---


class Drafting:
    """A backend that answers whatever it is asked."""

    def run(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(stdout="{}")


@pytest.mark.parametrize("is_worker", [False, True], ids=["asked at once", "put aside"])
def test_a_plan_that_waits_for_its_drafter_is_rejected_if_the_answer_meets_a_defect(
    redis: Redis, redis_url: str, *, is_worker: bool
) -> None:
    plan_one = goals.plan

    def failing(goal: Goal, catalogue: Catalogue, setting: Setting) -> Any:
        return fail() if setting.drafted else plan_one(goal, catalogue, setting)

    given = {"drafters": ("backend",), "planning_backend": f"{__name__}:Drafting"}
    here = Container(Settings(redis_url=redis_url, **given), is_worker=is_worker)  # type: ignore[arg-type]
    functions.load(here.client)
    publish(redis, {"goal": "Do it", "allowed_files": ["a.py"], "goal_id": "ci-1", "drafter": "backend"})
    with broken(how=failing), broken(draft_threads, "begin", lambda *_: None):
        here.goal_consumer.drain()
        if is_worker:
            assert record(redis)["verdict"] == "PENDING"
            here.draft_consumer.drain()

    found = record(redis)
    assert (found["reason"], found["state"]) == ("internal_error", "REJECTED")
    assert state(redis, found["plan_id"]) == "REJECTED"
    assert [each["problem"]["code"] for each in dead(redis, keys.GOALS_DEAD)] == ["internal_error"]


# --- how it is shown ---


@pytest.fixture
def planner(redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Planner:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    return Planner(redis_url)


def run(*words: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, words, input=stdin)


def test_the_command_line_says_what_happened_whose_fault_it_is_and_what_to_do(planner: Planner) -> None:
    with broken(), deciding(planner):
        sent = run("submit", "-", "--wait", "--no-fill", stdin=codec.dumps(GOAL))
        ended = run("submit", "-", "--wait", "end", "--no-fill", stdin=codec.dumps(GOAL))

    shown, explained, listed = run("show", "ci-1"), run("explain", "ci-1"), run("dead", "list")
    found = failure_id(sent.stdout)
    assert (sent.exit_code, ended.exit_code) == (1, 1)
    assert sent.stdout.startswith("REJECTED  plan_")
    for each in (sent, shown, explained):
        told = " ".join(each.stdout.replace("│", " ").split())
        assert "This is a defect of the planner, not of the goal." in told
        assert failure_id(told)
    assert "send the same goal again once the planner is repaired" in " ".join(explained.stdout.split())
    assert listed.stdout.count("internal_error") == 3
    assert found != failure_id(ended.stdout)
    assert "Traceback" not in sent.output + ended.output


@pytest.mark.outages
def test_a_dry_run_says_it_in_a_sentence_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [sys.executable, "-c", DRY_RUN, "submit", "-", "--dry-run", "--no-fill"]
    told = {
        level: subprocess.run(
            words, input=codec.dumps(GOAL), capture_output=True, env={**os.environ, "PLANNER_LOG_LEVEL": level}
        )
        for level in ("INFO", "DEBUG")
    }

    assert [each.returncode for each in told.values()] == [1, 1]
    assert failure_id(told["INFO"].stdout.decode())
    assert told["INFO"].stderr == b""
    assert b"Traceback" in told["DEBUG"].stderr
    monkeypatch.setattr(goals, "plan", fail)
    document = codec.loads(run("submit", "-", "--dry-run", "--no-fill", "--json", stdin=codec.dumps(GOAL)).stdout)
    assert (document["verdict"], document["reason"], document["steps"]) == ("REJECTED", "internal_error", [])


DRY_RUN = """
from tasks.handlers import goals
from worker.cli.commands.app import app

def fail(*_):
    raise ZeroDivisionError("of the planner")

goals.plan = fail
app()
"""


def test_http_answers_with_the_verdict_and_its_plan(gateway: Gateway, redis_url: str) -> None:
    client, planner = gateway.client(Right.PRODUCER), Planner(redis_url)
    with broken(), deciding(planner):
        told = client.post("/v1/goals?wait=20", json=GOAL)

    answer = told.json()
    assert (told.status_code, answer["verdict"], answer["reason"]) == (200, "REJECTED", "internal_error")
    assert failure_id(answer["errors"][0]["message"])
    assert client.get(answer["links"]["self"]).json() == answer
    explained = client.get(f"{answer['links']['plan']}/explain").json()
    assert "once the planner is repaired" in explained["halt"]["evidence"]["unblock"]
    with deciding(planner):
        assert client.post("/v1/goals?wait=20", json=GOAL).json()["verdict"] == "PLANNED"
