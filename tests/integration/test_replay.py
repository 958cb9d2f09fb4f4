"""`planner replay` of plans that are on a server: decided there by the engine, and again from their exports."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from schemas import codec
from tests.support.planner import Planner, executing, halted, large, rejected
from worker.cli.commands.app import app


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, server_url: str) -> Callable[..., Result]:
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    return lambda *words: CliRunner().invoke(app, ["replay", *map(str, words)])


@pytest.mark.parametrize("shape", [executing, halted, rejected, large])
def test_what_the_engine_decided_is_decided_again(
    planner: Planner, run: Callable[..., Result], shape: Callable[[Planner], str]
) -> None:
    plan_id = shape(planner)

    result = run(plan_id, "--json")

    told = codec.loads(result.stdout)
    assert (result.exit_code, told["result"], told["plan_id"]) == (0, "equal", plan_id), told
    assert bool(told["assumed"]) == (told["state"] not in ("HALTED", "REJECTED"))  # a plan that goes on has no seed


def test_a_plan_that_is_not_there_is_not_found(planner: Planner, run: Callable[..., Result]) -> None:
    assert run("ci-4711").exit_code == 3
    assert run("ci-4711", "ci-4712").exit_code == 1
