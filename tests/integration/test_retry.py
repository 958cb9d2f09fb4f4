"""`planner retry`: a plan that has ended is made anew from its goal, and both plans name each other."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from schemas import codec
from tests.conftest import wait_until
from tests.support.planner import Planner, executing, large, retried
from worker.cli.commands.app import app
from worker.store import keys

GOAL: dict[str, Any] = {
    "goal": "Fix the failing test tests/test_b.py::test_it",
    "steps": None,
    "allowed_files": ["src/b.py"],
    "tenant": "acme",
    "goal_id": "ci-1",
    "approvals": ["HIGH"],
    "limits": {"tokens": 500_000, "patch_cycles": 7},
    "context": {
        "repo": "acme/shop", "base_sha": "9f1c2d4", "language": "python", "test_command": "pytest",
        "failing_tests": ["tests/test_b.py::test_it"], "failure_log": "assert 1 == 2",
        "manifests": {"pyproject.toml": "[project]"},
    },
}  # fmt: skip


@pytest.fixture
def planner(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Planner:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("PLANNER_PARTITIONS", "4")
    monkeypatch.setenv("COLUMNS", "120")
    return Planner(redis_url, partitions=4)


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def shown(plan_id: str) -> dict[str, Any]:
    found: dict[str, Any] = codec.loads(run("show", plan_id, "--json").stdout)
    return found


def end(planner: Planner, plan_id: str) -> None:
    step = next(step for step in shown(plan_id)["steps"] if step["state"] == "ACTIVE")
    planner.report(step["step_id"], plan_id, touched_files=["etc/passwd"])
    assert shown(plan_id)["state"] == "HALTED"


def test_a_halted_plan_names_the_commands_that_go_on_and_they_do(planner: Planner) -> None:
    first = planner.submit(**GOAL)
    end(planner, first)

    told = run("show", first).stdout.replace("\n", " ")
    assert f"Allow etc/passwd and start again: planner retry {first} --allow etc/passwd" in told
    assert f"Start again: planner retry {first}" in told
    result = run("retry", first, "--allow", "src/c d.py", "--limit", "identical_failures=3", "--print")
    body = codec.loads(result.stdout)
    wrong = run("retry", first, "--limit", "nothing=3")

    assert body["allowed_files"] == ["src/b.py", "src/c d.py"]
    assert body["limits"] == {**GOAL["limits"], "identical_failures": 3}
    assert (wrong.exit_code, "NAME being one of" in wrong.output) == (2, True)


def test_a_retry_says_what_the_goal_said_and_both_plans_name_each_other(planner: Planner) -> None:
    first = planner.submit(**GOAL)
    end(planner, first)

    result = run("retry", first, "--tokens", "900000", "--base-sha", "abcdef0")
    assert result.exit_code == 0, result.output
    assert "/context/manifests" in result.output
    assert "failure_log" not in result.output
    planner.container.goal_consumer.drain()

    (second,) = shown(first)["retried_by"]
    told = shown(second)
    assert (told["retry_of"], told["retried_by"], told["tenant"]) == (first, [], "acme")
    assert told["goal_id"].startswith("retry-")
    assert (told["budget"]["tokens"]["limit"], told["budget"]["patch_cycles"]["limit"]) == (900_000, 7)
    assert [step["step_id"] for step in told["steps"]] == [step["step_id"] for step in shown(first)["steps"]]
    assert f"retried by {second}" in run("show", first).stdout
    assert f"retry of {first}" in run("show", second).stdout
    head = codec.loads(planner.client.hget(home(second).plan(second).plan, "head") or b"")
    assert (head["context"]["base_sha"], head["approvals"]) == ("abcdef0", ["HIGH"])
    assert "--base-sha" not in result.output
    assert "The new goal begins at 9f1c2d4" in run("retry", first).output


def home(plan_id: str) -> keys.Partition:
    return keys.Partition(keys.partition_of(plan_id, 4))


def test_without_a_repository_the_plans_may_lie_apart_and_still_name_each_other(planner: Planner) -> None:
    first = planner.submit(**GOAL | {"context": {"language": "python"}, "goal_id": "ci-2"})
    end(planner, first)
    for _ in range(6):
        assert run("retry", first).exit_code == 0
    planner.container.goal_consumer.drain()

    retries = shown(first)["retried_by"]
    assert len(set(retries)) == 6
    assert len({home(plan_id).number for plan_id in retries}) > 1
    assert {shown(plan_id)["retry_of"] for plan_id in retries} == {first}


def test_what_is_printed_can_be_sent_by_somebody_else(planner: Planner) -> None:
    first = planner.submit(**GOAL)
    end(planner, first)
    before = planner.client.xlen(keys.GOALS)

    printed = codec.loads(run("retry", first, "--print").stdout)

    assert planner.client.xlen(keys.GOALS) == before
    assert (printed["retry_of"], printed["context"]["failure_log"]) == (first, "assert 1 == 2")
    assert planner.submit(**printed, steps=None)
    assert len(shown(first)["retried_by"]) == 1


def test_only_a_plan_that_has_ended_and_whose_goal_is_kept_is_retried(planner: Planner) -> None:
    running, supplied = executing(planner), planner.submit(allowed_files=["../b.py"])  # rejected: no step is stored

    codes = {plan: codec.loads(run("retry", plan, "--json").stdout)["code"] for plan in (running, supplied)}

    assert codes == {running: "plan_not_ended", supplied: "goal_not_kept"}
    assert run("retry", supplied).exit_code == 1
    assert run("retry", "plan_00-nobody").exit_code == 3


def test_steps_that_a_goal_brought_along_are_in_the_new_one_as_they_came(planner: Planner) -> None:
    first = retried(planner)  # a revision has inserted a step, and made another wait for it
    planner.report("fix-b-syntax-check", first, touched_files=["etc/passwd"])
    assert shown(first)["state"] == "HALTED"

    assert run("retry", first).exit_code == 0
    planner.container.goal_consumer.drain()

    (second,) = shown(first)["retried_by"]
    steps = shown(second)["steps"]
    assert [(step["step_id"], step["depends_on"]) for step in steps] == [
        ("look", []),
        ("fix-b", ["look"]),
        ("a-check", ["look", "fix-b"]),
    ]
    asked = {step["step_id"]: (step["title"], step["allowed_files"], step["verify"]) for step in shown(first)["steps"]}
    assert all((step["title"], step["allowed_files"], step["verify"]) == asked[step["step_id"]] for step in steps)


def test_many_steps_are_brought_along_in_their_order(planner: Planner) -> None:
    first = large(planner)
    planner.report("s-1", first, touched_files=["etc/passwd"])

    printed = codec.loads(run("retry", first, "--print").stdout)

    assert [step["step_id"] for step in printed["steps"]] == [f"s-{number}" for number in range(200)]


def test_the_step_that_delivers_is_not_brought_along(planner: Planner) -> None:
    context = {"repo": "acme/shop", "base_sha": "9f1c2d4"}
    first = planner.submit(delivery={"push": True}, context=context)
    for step in ("look", "fix-b", "a-check"):
        said = {"touched_files": ["b.py"], "diff_hash": "sha256:1"} if step == "fix-b" else {}
        planner.report(step, first, **said)
    assert "land" in [step["step_id"] for step in shown(first)["steps"]]
    body = {"command_id": "c", "command": "cancel", "scope": "plan", "plan_id": first, "actor": "me", "reason": ""}
    planner.client.xadd(home(first).commands, {"data": codec.dumps(body)})
    engine = planner.container.context(home(first).number).engine
    wait_until(lambda: not engine.drain() and shown(first)["state"] == "HALTED", what="the plan is cancelled")

    printed = codec.loads(run("retry", first, "--print").stdout)

    assert [step["step_id"] for step in printed["steps"]] == ["look", "fix-b", "a-check"]


def test_nobody_names_the_plan_of_another_tenant(planner: Planner) -> None:
    first = planner.submit(**GOAL)
    end(planner, first)

    planner.submit(**GOAL | {"goal_id": "x", "tenant": "b", "retry_of": first})

    assert shown(first)["retried_by"] == []
