"""Commands to the plans that a filter finds: counted, asked about, and told of one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schemas import codec
from tests.support.planner import Planner, completed
from worker.cli import publisher
from worker.cli.commands.app import app


@pytest.fixture
def planner(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Planner:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("PLANNER_PARTITIONS", "2")
    return Planner(redis_url, partitions=2)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def told(*words: str) -> Any:
    return codec.loads(run(*words, "--json").stdout)


@contextmanager
def working(planner: Planner) -> Iterator[None]:
    """Decide about what comes while the block lasts."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            for number in range(2):
                planner.container.context(number).engine.drain(0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def some_plans(planner: Planner) -> list[str]:
    """Three plans of two repositories, one that has ended, one of another tenant."""
    made = [planner.submit(goal_id=f"g-{repo}", context={"repo": repo}) for repo in ("acme/a", "acme/b", "acme/b2")]
    completed(planner)
    planner.submit(goal_id="b", tenant="b", context={"repo": "acme/a"})
    return made


def states(planner: Planner) -> dict[str, int]:
    found: dict[str, int] = {}
    for plan in told("plans"):
        name = plan["state"] + " paused" * plan["paused"]
        found[name] = found.get(name, 0) + 1
    return found


def test_only_plans_that_fit_and_have_not_ended_are_paused_resumed_and_cancelled(planner: Planner) -> None:
    some_plans(planner)
    with working(planner):
        assert told("pause", "--kind", "task", "--tenant", "default", "--yes", "--reason", "x")["obeyed"] == 3
        assert states(planner) == {"EXECUTING paused": 3, "EXECUTING": 1, "COMPLETED": 1}
        assert told("resume", "--repo", "acme/b", "--yes")["plans"] == 1
        assert states(planner) == {"EXECUTING paused": 2, "EXECUTING": 2, "COMPLETED": 1}
        done = run("cancel", "--repo", "acme/a", "--since", "1h", "--yes")
        assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "cancel: 2 of 2 plans done")
        assert told("halt", "--state", "executing", "--yes")["obeyed"] == 2
    assert states(planner) == {"HALTED": 4, "COMPLETED": 1}
    assert "No plan that has not ended" in run("cancel", "--state", "HALTED").stdout


def test_nothing_is_sent_where_nobody_can_be_asked(planner: Planner) -> None:
    some_plans(planner)

    result = run("cancel", "--repo", "acme/a")

    assert result.exit_code == 2
    assert "This affects 2 plans" in result.output
    assert told("cancel", "--repo", "acme/a")["code"] == "not_asked"
    assert run("cancel", "--repo", "acme/a", "--all", "--yes").exit_code == 2
    assert states(planner)["EXECUTING"] == 4


def test_what_is_refused_or_not_answered_is_told_and_fails(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = some_plans(planner)
    with working(planner):
        assert run("pause", plans[0]).exit_code == 0
        assert run("pause", "--tenant", "b", "--kind", "task", "--yes").exit_code == 0
        # One is held by nothing of its own any more when its turn comes.
        sent = publisher.commands

        def resumed_before(link: Any, wanted: Any) -> Any:
            if wanted[0]["command"] == "resume" and len(wanted) > 1:
                sent(link, [{**wanted[0], "plan_id": plans[0]}])
            return sent(link, wanted)

        monkeypatch.setattr(publisher, "commands", resumed_before)
        result = run("resume", "--kind", "task", "--yes", "--json")
    assert result.exit_code == 1
    found = codec.loads(result.stdout)
    assert (found["plans"], found["obeyed"]) == (2, 1)
    assert found["refused"] == [{"plan_id": plans[0], "reason": "the plan is not paused"}]
    monkeypatch.setattr("worker.client.redis_planner.ANSWER_S", 0.3)
    silent = run("cancel", "--kind", "task", "--yes")
    assert silent.exit_code == 1
    assert "No worker answered for 4 plans" in silent.stdout
