"""A plan as one document: everything that is kept of it, and nothing that lets somebody act in its name."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.stored import StepStatus
from tests.support.planner import Planner, executing, halted, large, rejected
from worker.cli.commands.app import app
from worker.store import export, keys
from worker.store.keys import Partition

P0 = Partition(0)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, server_url: str) -> Callable[..., Result]:
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    return lambda *words: CliRunner().invoke(app, ["export", *map(str, words)])


def document(run: Callable[..., Result], plan: str) -> dict[str, Any]:
    result = run(plan)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = codec.loads(result.stdout_bytes)
    return found


def leases(planner: Planner) -> list[str]:
    """Every lease that was handed out, by the specs that are in a queue."""
    found: Any = planner.client.xrange(P0.steps("default"))
    return [codec.loads(fields[b"data"])["lease"] for _, fields in found]


def test_everything_that_is_kept_stands_in_the_document(planner: Planner, run: Callable[..., Result]) -> None:
    plan_id = planner.submit(goal_id="ci-1")
    planner.report("look", plan_id, controller="ctl-7")
    planner.client.xadd(P0.outcomes, {"data": '{"step_id": 7}', "plan_id": plan_id})
    planner.client.xadd(P0.outcomes, {"data": '{"step_id": 8}'})
    planner.container.context(0).engine.drain()

    told = document(run, "ci-1")

    assert (told["plan_id"], told["partition"], told["format"]) == (plan_id, 0, "planner.plan")
    assert (told["plan"]["state"], told["plan"]["goal"]["goal"]) == ("EXECUTING", "Fix b")
    assert told["plan"]["live"]["counts"]["DONE"] == 1
    assert (told["goal"]["goal_id"], told["goal"]["verdict"]) == ("ci-1", "PLANNED")
    steps = [(step["step_id"], step["status"]["state"], step["dependents"]) for step in told["steps"]]
    assert steps == [
        ("look", "DONE", ["fix-b", "a-check"]),
        ("fix-b", "ACTIVE", ["a-check"]),
        ("a-check", "BLOCKED", []),
    ]
    assert told["steps"][1]["spec"]["verify"] == "pytest tests/test_b.py -v"
    assert [(one["step_id"], one["attempt"], one["result"]) for one in told["attempts"]] == [("look", 1, "DONE")]
    assert [(one["step_id"], one["attempt"]) for one in told["in_flight"]] == [("fix-b", 1)]
    assert [(one["step_id"], one["attempt"]) for one in told["leases"]] == [("fix-b", "1")]
    assert told["log"][-1]["in"][0][3]["controller"] == "ctl-7"
    assert "dev.planner.step.done.v1" in {event["type"] for event in told["events"]}
    assert [dead["data"] for dead in told["dead"]] == ['{"step_id": 7}']
    assert told["changed_meanwhile"] is False


def test_of_a_plan_that_goes_on_neither_the_seed_nor_a_lease_that_counts_is_in_it(
    planner: Planner, run: Callable[..., Result]
) -> None:
    plan_id = planner.submit()
    handed_out = leases(planner)
    planner.report("look", plan_id, lease=handed_out[0])
    handed_out += leases(planner)
    body = codec.dumps({"step_id": 7, "plan_id": plan_id, "lease": handed_out[-1]})
    planner.client.xadd(P0.outcomes, {"data": body, "lease": handed_out[-1]})
    planner.container.context(0).engine.drain()
    head: Any = planner.client.hget(P0.plan(plan_id).plan, "head")

    text = run(plan_id).stdout

    assert len(set(handed_out)) == 2
    told = codec.loads(text)
    assert told["dead"]
    assert "plan.head.seed" in told["left_out"]
    assert handed_out[0] in str(told["log"])  # of an attempt that has ended: it is good for nothing
    for secret in (handed_out[1], codec.loads(head)["seed"]):
        assert secret not in text


def test_of_a_plan_that_has_ended_the_seed_is_in_it(planner: Planner, run: Callable[..., Result]) -> None:
    told = document(run, halted(planner))

    assert re.fullmatch(r"[0-9a-f]{24}", told["plan"]["head"]["seed"])
    assert "plan.head.seed" not in told["left_out"]


def test_the_lines_of_the_log_are_written_as_they_are_stored(
    planner: Planner, run: Callable[..., Result], tmp_path: Path
) -> None:
    plan_id, target = planner.submit(), tmp_path / "log.jsonl"
    body = {"step_id": "look", "success": True, "tests_passed": True, "plan_id": plan_id, "unknown": 1e2}
    planner.client.xadd(P0.outcomes, {"data": json.dumps(body, indent=1)})  # line ends between its values
    planner.container.context(0).engine.drain()
    stored: Any = planner.client.lrange(P0.plan(plan_id).log, 0, -1)

    result = run(plan_id, "--log", target)

    assert (result.exit_code, result.output) == (0, "")
    assert target.read_bytes() == b"".join(line + b"\n" for line in stored)
    assert len(target.read_bytes().splitlines()) == len(stored) > 1
    assert b'"unknown": 100.0' in target.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("shape", [executing, halted, rejected, large])
def test_the_same_plan_gives_the_same_document(
    planner: Planner, run: Callable[..., Result], shape: Callable[[Planner], str]
) -> None:
    plan_id = shape(planner)

    first, second = document(run, plan_id), document(run, plan_id)

    assert first.pop("exported_at") <= second.pop("exported_at")
    assert first == second
    assert list(first) == list(second)


def test_a_large_plan_comes_in_its_order_and_in_pieces(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_id = large(planner)
    monkeypatch.setattr(export, "PAGE", 7)

    pieces = list(export.export(planner.client, 1, plan_id))

    told = codec.loads(b"".join(pieces))
    assert [step["step_id"] for step in told["steps"]] == [f"s-{number}" for number in range(200)]
    assert told["steps"][0]["dependents"] == [f"s-{number}" for number in range(1, 200)]
    assert max(map(len, pieces)) < len(b"".join(pieces)) / 10


def test_a_plan_that_changes_meanwhile_says_so(planner: Planner) -> None:
    plan_id = executing(planner)
    pieces = export.export(planner.client, 1, plan_id)
    first = next(pieces)
    planner.report("fix-b", plan_id, touched_files=["b.py"])

    assert codec.loads(first + b"".join(pieces))["changed_meanwhile"] is True


def test_what_a_newer_version_keeps_is_exported_too(planner: Planner, run: Callable[..., Result]) -> None:
    plan_id = executing(planner)
    k = P0.plan(plan_id)
    raw: Any = planner.client.hget(k.status, "look")
    planner.client.hset(k.status, "look", codec.dumps([*StepStatus.decode(raw).columns, {"new": 1}]))
    planner.client.hset(k.plan, "surprise", "x")

    told = document(run, plan_id)

    assert told["steps"][0]["status"]["more"][-1] == {"new": 1}
    assert told["plan"]["surprise"] == "x"


def test_a_dead_goal_that_this_plan_was_made_for_is_in_it(planner: Planner, run: Callable[..., Result]) -> None:
    planner.submit(goal_id="ci-2")
    planner.client.xadd(keys.GOALS, {"data": codec.dumps({"goal": "Another", "goal_id": "ci-2"})})
    planner.client.xadd(keys.GOALS, {"data": codec.dumps({"goal": 7, "goal_id": "ci-21"})})
    planner.container.goal_consumer.drain()

    assert [dead["code"] for dead in document(run, "ci-2")["dead"]] == ["goal_conflict"]


def test_a_file_is_there_once_it_is_complete_and_only_for_us(
    planner: Planner, run: Callable[..., Result], tmp_path: Path
) -> None:
    plan_id, target = executing(planner), tmp_path / "plan.json"
    target.write_text("old")

    result = run(plan_id, "--output", target)

    assert (result.exit_code, result.output) == (0, "")
    assert codec.loads(target.read_bytes())["plan_id"] == plan_id
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_a_failure_leaves_the_old_file_and_no_other(
    planner: Planner, run: Callable[..., Result], tmp_path: Path
) -> None:
    plan_id, target = executing(planner), tmp_path / "plan.json"
    target.write_text("old")
    planner.client.delete(P0.plan(plan_id).log)
    planner.client.set(P0.plan(plan_id).log, "no list")

    result = run(plan_id, "--output", target, "--json")

    assert (result.exit_code, codec.loads(result.stdout)["code"]) == (1, "redis_refused")
    assert [(each, each.read_text()) for each in tmp_path.iterdir()] == [(target, "old")]


def test_a_place_that_cannot_be_written_is_a_sentence(
    planner: Planner, run: Callable[..., Result], tmp_path: Path
) -> None:
    result = run(executing(planner), "--output", tmp_path / "no" / "plan.json")

    assert result.exit_code == 2
    assert re.search(r"plan.json: No such file or directory\.", " ".join(result.stderr.split()))


def test_a_plan_that_is_none_is_not_found(planner: Planner, run: Callable[..., Result]) -> None:
    result = run("ci-nobody", "--json")

    assert (result.exit_code, codec.loads(result.stdout)["code"]) == (3, "no_such_plan")
