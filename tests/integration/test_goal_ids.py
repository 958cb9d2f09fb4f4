"""The id of a goal on the command line: one content is one goal, and one id is never two goals."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tests.support.planner import Planner
from tests.support.roles import user
from worker.cli.commands.app import app
from worker.store import keys

Submit = Callable[..., Result]
CASES = (
    '<testcase classname="tests.test_b" name="test_it"><failure message="E">at 0x7f3a1c in 1.23 s</failure></testcase>',
    '<testcase classname="tests.test_b" name="test_b"><failure message="E">no</failure></testcase>',
)
AGAIN = (CASES[1], CASES[0].replace("0x7f3a1c in 1.23", "0x7e11aa in 4.56"))


def report(cases: tuple[str, ...], stamp: int) -> str:
    begin = f'<testsuites><testsuite name="pytest" timestamp="2026-11-2{stamp}T00:00:00" time="{stamp}.5">'
    return f"{begin}{''.join(cases)}</testsuite></testsuites>"


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch, redis_url: str, tmp_path: Path) -> Submit:
    """Run `planner submit` in a checkout, against the session's server."""
    (tmp_path / "b.py").write_text("")
    for words in (["init", "-q"], ["add", "b.py"], ["-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.chdir(tmp_path)
    return lambda *words, stdin=None: CliRunner().invoke(app, ["submit", "-f", "b.py", *words], input=stdin)


def told(result: Result) -> Any:
    return codec.loads(result.stdout)


def entries(redis: Redis) -> int:
    return int(redis.xinfo_stream(keys.GOALS)["entries-added"])


def test_a_job_that_runs_again_asks_for_the_same_goal(submit: Submit, redis: Redis, planner: Planner) -> None:
    first = told(submit("--from-junit", "-", "--json", stdin=report(CASES, 1)))
    planner.container.goal_consumer.drain()
    again = submit("--from-junit", "-", "--wait", "--json", stdin=report(AGAIN, 2))
    for_people = submit("--from-junit", "-", stdin=report(AGAIN, 3))
    waited = submit("--from-junit", "-", "--wait", stdin=report(CASES, 1))
    fewer = told(submit("--from-junit", "-", "--json", stdin=report(CASES[:1], 1)))

    assert first["goal_id"].startswith("content-")
    assert first["entry"]
    assert (told(again)["goal_id"], told(again)["verdict"], told(again)["entry"]) == (first["goal_id"], "PLANNED", None)
    assert for_people.stdout.startswith(f"Submitted before, as goal {first['goal_id']}.")
    assert "Submitted before: this goal exists" in waited.stdout
    assert fewer["goal_id"] != first["goal_id"]
    assert entries(redis) == 2


@pytest.mark.parametrize(
    ("words", "environment", "is_named"),
    [
        (["--goal", "Fix it"], {}, False),  # a person who asks twice wants it twice
        (["--goal", "Fix it"], {"CI_PROJECT_PATH": "acme/shop"}, True),
        (["--goal", "Fix it", "--goal-id", "mine"], {"GITHUB_SHA": "a" * 40}, False),
        (["--from-junit", "-", "--no-fill"], {}, False),  # of which commit nobody knows
        (["--from-junit", "-", "--no-fill", "--base-sha", "main"], {}, False),  # tomorrow it is another one
        (["--from-junit", "-", "--no-fill", "--base-sha", "9f1c2d4"], {}, True),
    ],
)
def test_which_goals_are_named_by_their_content(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, words: list[str], environment: dict[str, str], is_named: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    result = told(submit(*words, "--json", stdin=report(CASES, 1)))

    assert result["goal_id"].startswith("content-") is is_named


@pytest.mark.parametrize("tenant", [[], ["--tenant", "acme"]])
def test_an_id_of_another_goal_is_refused_before_it_is_sent_with_a_producers_rights(
    submit: Submit, redis: Redis, planner: Planner, monkeypatch: pytest.MonkeyPatch, redis_url: str, tenant: list[str]
) -> None:
    words = ["--goal-id", "ci-4711", *tenant, "--json"]
    assert submit("--goal", "Fix it", *words).exit_code == 0
    planner.container.goal_consumer.drain()
    plan_id = redis.hget(keys.goal_id("ci-4711", tenant[1] if tenant else "default"), "plan_id")
    assert isinstance(plan_id, bytes)

    with user(redis, "producer", redis_url) as url:
        monkeypatch.setenv("PLANNER_REDIS_URL", url)
        same, other = submit("--goal", "Fix it", *words), submit("--goal", "Fix that", *words)

    assert same.exit_code == 0
    assert (other.exit_code, told(other)["code"], told(other)["status"]) == (1, "goal_conflict", 409)
    assert f"ci-4711 was already used for another goal (plan {plan_id.decode()}, PLANNED)" in told(other)["detail"]
    assert entries(redis) == 2


def test_two_goals_of_one_id_that_are_sent_at_once_are_told_apart(
    submit: Submit, redis: Redis, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submit("--goal", "Fix it", "--goal-id", "ci-4711").exit_code == 0
    monkeypatch.setattr("worker.client.redis_planner.LOOK_S", 0.2)
    monkeypatch.setattr("time.sleep", lambda _: planner.container.goal_consumer.drain())

    other = submit("--goal", "Fix that", "--goal-id", "ci-4711", "--wait", "--json")

    assert (other.exit_code, told(other)["code"]) == (1, "goal_conflict")
