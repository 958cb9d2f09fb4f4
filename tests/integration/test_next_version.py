"""A server that the next version has been on: its functions are used and stay, and its layout is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas.stored.step import LAYOUT
from tests.support import next_version
from tests.support.planner import Planner
from tests.support.refused import all_of, run
from worker.cli.commands.app import app
from worker.process.launch import worker_command
from worker.store import deployment, functions

REFUSED = f"The records on this server have layout {next_version.NEWER_LAYOUT}, and this version reads up to {LAYOUT}"


def test_plans_are_made_and_completed_by_newer_functions_which_stay(redis: Redis, redis_url: str) -> None:
    next_version.load_libraries(redis)
    before = redis.function_list(withcode=True)

    planner = Planner(redis_url)  # which loads its own
    plan_id = planner.submit()
    for step in ("look", "fix-b", "a-check"):
        planner.report(step, plan_id)

    assert planner.view(plan_id).state == "COMPLETED"
    assert functions.are_loaded(planner.client)
    assert redis.function_list(withcode=True) == before
    assert redis.fcall(next_version.NEW_FUNCTION, 0) == b"new"


def test_a_server_of_this_version_is_taken_over_by_the_next(redis: Redis, redis_url: str) -> None:
    planner = Planner(redis_url)
    plan_id = planner.submit()

    next_version.load_libraries(redis)
    planner.report("look", plan_id)

    assert redis.fcall(next_version.NEW_FUNCTION, 0) == b"new"
    assert {each.step_id: each.state for each in planner.view(plan_id).steps}["look"] == "DONE"


def test_a_worker_refuses_a_newer_layout_before_it_writes(redis: Redis, redis_url: str) -> None:
    next_version.raise_layout(redis)
    stored = all_of(redis)

    code, said = run(worker_command(pool="solo"), PLANNER_REDIS_URL=redis_url)

    assert code == 1
    assert REFUSED in said
    assert all_of(redis) == stored


@pytest.mark.parametrize("words", [("gateway", "--port", "0"), ("plans",), ("submit", "--goal", "Fix b")])
def test_gateways_and_commands_refuse_a_newer_layout(
    redis: Redis, redis_url: str, words: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    next_version.raise_layout(redis)

    found = CliRunner().invoke(app, words)

    assert found.exit_code == 2
    assert REFUSED in " ".join(found.output.split())


def test_a_worker_that_runs_refuses_a_layout_that_is_raised_meanwhile(redis: Redis) -> None:
    deployment.join(redis, 1)
    next_version.raise_layout(redis)

    with pytest.raises(deployment.WrongDeployment, match="install the version that the other workers have"):
        deployment.join(redis, 1)
