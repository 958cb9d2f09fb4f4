"""Drafts that come to nothing where the operator wants no template plan, and a worker that dies while it asks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from schemas import codec
from tests.conftest import connect, wait_until
from tests.support.drafting import DRAFTING, PLAN, REST, USELESS, a_goal, begin, drafting, environment, passing, phases
from tests.support.llm_server import Reply, llm_server
from tests.support.scripted import Fleet
from worker.cli.commands.app import app
from worker.process.launch import worker_command

SLOW = Reply(codec.dumps(PLAN).decode(), waits=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("reply", "patience_s", "questions", "told"),
    [(USELESS, "30", 2, "at least 1 item"), (SLOW, "8", 1, "no answer within 8 s")],
    ids=["useless", "slow"],
)
@pytest.mark.outages
def test_an_operator_may_have_it_rejected_instead(
    reply: Reply, patience_s: str, questions: int, told: str, redis_url: str, tmp_path: Path
) -> None:
    with llm_server(reply) as llm, connect(redis_url) as client:
        fleet = Fleet(client)
        given = environment(llm, PLANNING_FALLBACK="reject", LLM_TIMEOUT_S=patience_s)
        with drafting(redis_url, tmp_path, DRAFTING, **given):
            verdict, plan_id = fleet.submit(a_goal())
            view = fleet.view(plan_id)

    assert (verdict, view.state) == ("REJECTED", "REJECTED")
    assert view.halt is not None
    (error,) = view.halt.evidence["errors"]
    assert error["code"] == view.halt.reason == "planning_failed"
    assert told in error["message"]
    assert len(llm.calls) == questions
    assert view.budget.tokens.spent > 0
    assert list(view.steps) == []


@pytest.mark.outages
def test_a_question_is_never_asked_twice_though_its_worker_dies(redis_url: str, tmp_path: Path) -> None:
    with llm_server(Reply(codec.dumps(PLAN).decode(), waits=True)) as llm, connect(redis_url) as client:
        fleet = Fleet(client)
        given = environment(llm, CLAIM_IDLE_S="1", LLM_TIMEOUT_S="60")
        with drafting(redis_url, tmp_path, DRAFTING, REST, **given) as (first, _):
            plan_id = begin(fleet, llm, "goal-of-the-dead")
            first.kill()
            (tmp_path / "next").mkdir()
            with drafting(redis_url, tmp_path / "next", DRAFTING, **given):
                found: Any = wait_until(lambda: fleet.verdict("goal-of-the-dead"), what="a verdict")
                view = fleet.work(plan_id, passing)

    assert (found.verdict, view.state) == ("PLANNED", "COMPLETED")
    assert len(llm.calls) == 1
    ((name, why),) = phases(client, plan_id)
    assert name == "fallback"
    assert "the worker that asked died" in why


@pytest.mark.long
@pytest.mark.outages
def test_a_slow_draft_stays_with_its_worker_while_others_plan_other_goals(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    with llm_server(SLOW) as llm, connect(redis_url) as client:
        fleet = Fleet(client)
        given = environment(llm, CLAIM_IDLE_S="8", LLM_TIMEOUT_S="120")
        with drafting(redis_url, tmp_path, DRAFTING, DRAFTING, **given):
            plan_id = begin(fleet, llm, "goal-of-the-patient")
            since = client.time()[0]
            while client.time()[0] < since + 11:  # each time the other worker looks for goals that nobody renews
                assert fleet.submit(a_goal(drafter="none"))[0] == "PLANNED"
            shown = codec.loads(CliRunner().invoke(app, ["show", plan_id, "--json"]).stdout)["standing_still"]
            assert shown["reason"] == "drafter"
            assert shown["detail"].startswith("a drafter is asked until 20")
            llm.go_on.set()
            found: Any = wait_until(lambda: fleet.verdict("goal-of-the-patient"), what="a verdict")

        assert found.verdict == "PLANNED"
        assert [name for name, _ in phases(client, plan_id)] == ["drafted"]
        assert len(llm.calls) == 1


@pytest.mark.outages
def test_a_worker_of_any_kind_refuses_to_start_with_a_drafter_that_cannot_be_used(redis_url: str) -> None:
    given = {"PLANNER_REDIS_URL": redis_url, "PLANNER_DRAFTERS": "cli", "PLANNER_CLI_COMMAND": "no-such-program"}

    ended = subprocess.run(worker_command("solo"), env={**os.environ, **given}, capture_output=True, timeout=60)

    assert ended.returncode == 1
    assert b"PLANNER_CLI_COMMAND: there is no program 'no-such-program' to run." in ended.stderr
