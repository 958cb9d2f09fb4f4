"""`planner policy`: looked over, applied, shown, compared, withdrawn, refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tests.support.engine import a_goal, container, plan
from worker.cli.commands.app import app
from worker.store import policies

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> Run:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *words: CliRunner().invoke(app, ["policy", *words])


def test_a_policy_is_applied_shown_and_withdrawn(run: Run, redis: Redis, redis_url: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text("[most]\ntokens = 500_000 # since May\n")
    two.write_text("[most]\ntokens = 400_000\nmax_steps = 9\n")

    assert run("show").exit_code == 3
    assert run("apply", str(one), "--check").exit_code == 0
    assert policies.current(redis) is None
    digest = codec.loads(run("apply", str(one), "--actor", "ada", "--json").stdout)["digest"]
    with container(redis_url) as here:
        (plan_id,) = plan(here, redis, a_goal(1))
    other = codec.loads(run("apply", str(two), "--tenant", "acme", "--json").stdout)["digest"]

    assert run("show").stdout == run("show", digest[:8]).stdout == one.read_text()
    assert run("show", "--plan", plan_id).stdout == one.read_text()
    assert codec.loads(run("show", "--tenant", "acme", "--json").stdout)["rules"]["most"]["max_steps"] == 9
    differing = run("diff", "current", str(two))
    assert differing.exit_code == 1
    assert differing.stdout == "most.max_steps: (not said) -> 9\nmost.tokens: 500000 -> 400000\n"
    assert run("diff", other, str(two)).exit_code == 0
    assert run("withdraw", "--tenant", "acme").exit_code == 0
    assert run("withdraw", "--tenant", "acme").exit_code == 3
    told = codec.loads(run("history", "--json").stdout)
    assert [(each["tenant"], each["digest"]) for each in told] == [("acme", None), ("acme", other), (None, digest)]
    assert told[-1]["by"] == "ada"


@pytest.mark.parametrize("words", ["show abcd", "show a", "diff nothing current", "show --plan x"])
def test_what_is_not_there_has_exit_code_3(run: Run, redis: Redis, words: str) -> None:
    assert run(*words.split()).exit_code == 3


def test_a_wrong_file_changes_nothing_and_every_mistake_is_told(run: Run, redis: Redis, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[defaults]\ntokns = 5\n[risk.HIGH]\nretries = 2\n")

    told = run("apply", str(wrong), "--json")

    assert told.exit_code == 2
    assert [each["pointer"] for each in codec.loads(told.stdout)["errors"]] == ["defaults.tokns", "risk.HIGH.retries"]
    assert run("apply", str(tmp_path / "none.toml")).exit_code == 2
    assert list(policies.history(redis)) == []
