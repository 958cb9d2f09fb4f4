"""Governance through the real queue: a real worker process, and a controller that reports the worst."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tasks.policy.halt_rules import AT_ONCE
from tasks.toolchain.classify import HALTS_AT_ONCE
from tests.conftest import connect, running_worker, wait_until
from tests.support.messages import publish, verdict_of
from tests.support.stored import P0

FILES = ["src/shop.py", "tests/test_shop.py"]
TOOLS = """
[tools.rspec]
spellings = ["rspec"]
example = "rspec spec"
category = "TEST"
timeout_s = 100
positional = "path"
focus = "path"
"""


@pytest.fixture(scope="module")
def redis(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A client of the server of one worker, which has an operator's tools."""
    directory = tmp_path_factory.mktemp("worker")
    tools = directory / "tools.toml"
    tools.write_text(TOOLS)
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
    with running_worker(server_url, directory / "worker.log", PLANNER_TOOLS_FILE=str(tools)) as worker:
        yield worker.redis


class Plan:
    """A plan of two steps on a queue of its own, and the controller that works on it."""

    def __init__(self, redis: Redis, queue: str, verify: str = "pytest tests/test_shop.py", **limits: int) -> None:
        step = {"title": "t", "intent": "i", "allowed_files": FILES, "verify": verify, "retry_limit": 3}
        steps = [{**step, "step_id": "a"}, {**step, "step_id": "b", "depends_on": ["a"]}]
        goal = {"goal": "Fix it", "allowed_files": FILES, "steps": steps, "queue": queue, "limits": limits}
        answer = verdict_of(redis, publish(redis, goal))
        assert answer[b"verdict"] == b"PLANNED", answer
        self.redis, self.queue, self.plan_id = redis, P0.steps(queue), answer[b"plan_id"].decode()

    @property
    def specs(self) -> list[dict[str, Any]]:
        found: Any = self.redis.xrange(self.queue)
        return [codec.loads(fields[b"data"]) for _, fields in found]

    def attempt(self, number: int) -> dict[str, Any]:
        """Wait for this attempt of the first step."""
        wait_until(lambda: [spec["attempt"] for spec in self.specs] == [number], what=f"attempt {number}")
        (spec,) = self.specs
        assert (spec["step_id"], spec["plan_id"]) == ("a", self.plan_id)
        return spec

    def fail(self, number: int, category: str, **evidence: Any) -> dict[str, Any]:
        """Report that this attempt failed; returns its spec."""
        spec = self.attempt(number)
        said = {"success": False, "failure_evidence": {"category": category, **evidence}}
        ids = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
        self.redis.xadd(spec["reply_to"], {"data": codec.dumps({**said, **ids})})
        return spec

    def read(self, name: str) -> Any:
        raw: Any = self.redis.hget(P0.plan(self.plan_id).plan, name)
        return raw.decode() if name == "state" else codec.loads(raw)

    @property
    def states(self) -> dict[str, str]:
        found: Any = self.redis.hgetall(P0.plan(self.plan_id).status)
        return {step.decode(): codec.loads(record)[1] for step, record in found.items()}


@pytest.mark.parametrize("category", sorted(HALTS_AT_ONCE))
def test_a_violation_halts_the_plan_at_once(redis: Redis, category: str) -> None:
    plan = Plan(redis, category.lower().replace("_", "-"))

    plan.fail(1, category)

    wait_until(lambda: plan.read("state") == "HALTED", what="halted")
    assert plan.read("halt")["rule"] == AT_ONCE[category]  # type: ignore[index]
    assert plan.states == {"a": "HALTED", "b": "BLOCKED"}
    assert plan.specs == []


def test_the_four_branches_of_the_taxonomy_that_halt_are_those_of_the_seed() -> None:
    assert sorted(HALTS_AT_ONCE) == [
        "ALLOWLIST_VIOLATION",
        "BUDGET_EXCEEDED",
        "HYGIENE_VIOLATION",
        "SANDBOX_VIOLATION",
    ]


def test_evidence_changes_neither_the_allowlist_nor_a_command(redis: Redis) -> None:
    plan = Plan(redis, "evil", consecutive_failures=9, identical_failures=9)
    evil = {
        "top_failing_tests": ["x; rm -rf /"],
        "affected_files": ["/etc/passwd"],
        "stack_trace_head": 'File "/etc/passwd", line 1',
    }

    given = [plan.fail(number, "TEST_REGRESSION", **evil) for number in (1, 2, 3)]
    given.append(plan.attempt(4))

    for spec in given:
        assert spec["allowed_files"] == FILES
        assert [tool["argv"] for tool in spec["verify_tools"]] == [["pytest", "tests/test_shop.py"]]
        assert spec["verify"] == "pytest tests/test_shop.py"


def test_a_step_with_an_operators_tool_gets_its_revision(redis: Redis) -> None:
    plan = Plan(redis, "ruby", verify="rspec spec", consecutive_failures=9)

    for number in (1, 2):
        plan.fail(
            number,
            "TEST_REGRESSION",
            stack_trace_head=f"expected {'x' * number}",
            top_failing_tests=["spec/login_spec.rb"],
        )

    third = plan.attempt(3)
    assert [tool["argv"] for tool in third["verify_tools"]] == [["rspec", "spec/login_spec.rb"], ["rspec", "spec"]]
    assert [tool["tool"] for tool in third["verify_tools"]] == ["rspec", "rspec"]
