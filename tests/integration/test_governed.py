"""Halts and revisions through the real queue and store."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from tasks.base.policy_version import POLICY_VERSION
from tasks.policy.halt_rules import AT_ONCE
from tasks.toolchain.classify import HALTS_AT_ONCE
from tests.support.engine import drain, plan
from tests.support.messages import answer, report, specs
from tests.support.stored import P0, state
from tests.support.stored_steps import facts_in
from worker.cli.commands.app import app
from worker.process.container import Container
from worker.store import queries

FILES = ["src/auth.py", "tests/test_auth.py"]


def a_goal(**limits: int) -> dict[str, Any]:
    step = {
        "title": "t",
        "intent": "i",
        "allowed_files": FILES,
        "verify": "pytest tests/test_auth.py",
        "retry_limit": 3,
    }
    steps = [{**step, "step_id": "a"}, {**step, "step_id": "b", "depends_on": ["a"]}]
    return {"goal": "Fix it", "allowed_files": FILES, "steps": steps, "limits": {"max_parallel": 1, **limits}}


def fail(here: Container, redis: Redis, category: str, **evidence: Any) -> None:
    (spec,) = specs(redis)
    report(redis, answer(spec, success=False, failure_evidence={"category": category, **evidence}))
    drain(here)


@pytest.mark.parametrize("category", sorted(HALTS_AT_ONCE))
def test_a_violation_halts_at_once(here: Container, redis: Redis, category: str) -> None:
    (plan_id,) = plan(here, redis, a_goal())

    fail(here, redis, category)

    view = queries.plan(here.client, 1, plan_id)
    assert view
    assert view.halt
    assert (view.state, view.halt.rule) == ("HALTED", AT_ONCE[category])  # type: ignore[index]
    assert specs(redis) == []


def test_evidence_changes_neither_the_allowlist_nor_a_command(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(consecutive_failures=10, identical_failures=10))
    evil = {
        "top_failing_tests": ["x; rm -rf /", "tests/test_auth.py::test_it"],
        "affected_files": ["/etc/passwd", "src/auth.py"],
        "stack_trace_head": 'File "/etc/passwd", line 1',
    }

    for _ in range(2):
        fail(here, redis, "TEST_REGRESSION", **evil)

    (spec,) = specs(redis)
    assert spec["allowed_files"] == FILES
    assert spec["verify_tools"][0]["argv"] == ["pytest", "--", "tests/test_auth.py::test_it"]
    stored: Any = redis.hgetall(P0.plan(plan_id).steps)
    for facts in facts_in(stored).values():
        assert set(facts["allowed_files"]) <= set(FILES)
        assert "rm -rf" not in facts["verify"]


def test_a_preparation_runs_first_and_then_the_step_again(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal())

    fail(here, redis, "TYPE_ERROR")
    order = []
    while waiting := specs(redis):
        order += [(spec["step_id"], spec["attempt"]) for spec in waiting]
        for spec in waiting:
            report(redis, answer(spec, touched_files=spec["allowed_files"]))
        drain(here)

    assert order == [("a-type-check", 1), ("a", 2), ("b", 1)]
    assert state(redis, plan_id) == "COMPLETED"
    log: Any = redis.lrange(P0.plan(plan_id).log, 0, -1)
    (revision,) = [revised for line in log for revised in codec.loads(line).get("revisions", ())]
    assert (revision["revision"], revision["diff"]["inserted"]) == (2, "a-type-check")


def test_a_halt_is_explained_to_people_and_scripts(
    here: Container, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan_id,) = plan(here, redis, a_goal())
    fail(here, redis, "TEST_REGRESSION", stack_trace_head="assert 1 == 2")
    fail(here, redis, "TEST_REGRESSION", stack_trace_head="assert 3 == 4")
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")

    as_json = codec.loads(CliRunner().invoke(app, ["explain", plan_id, "--json"]).stdout)
    as_text = CliRunner().invoke(app, ["explain", plan_id, "a"]).stdout
    missing = CliRunner().invoke(app, ["explain", plan_id, "nobody"])

    assert (as_json["halt"]["rule"], as_json["halt"]["evidence"]["value"]) == ("identical_failure", 2)
    assert [step["step_id"] for step in as_json["steps"]] == ["a", "b"]
    assert [each["result"] for each in as_json["steps"][0]["attempts"]] == ["RETRIED", "HALTED"]
    assert as_json["steps"][0]["attempts"][0]["revision"]["rule"] == "add_context"
    for told in (
        f"identical_failure (policy version {POLICY_VERSION})",
        "value 2, limit 2",
        "to go on:",
        "attempt 2  HALTED",
    ):
        assert told in as_text
    assert "b  BLOCKED" not in as_text
    assert missing.exit_code == 3


def test_a_rejection_is_explained(
    here: Container, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan_id,) = plan(here, redis, {**a_goal(), "allowed_files": ["../x"]})
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")

    told = CliRunner().invoke(app, ["explain", plan_id]).stdout

    assert f"rule rejected (policy version {POLICY_VERSION})" in told
    assert "to go on: Correct this, then send the goal again under a new goal_id" in told
