"""What a worker's log says of plans: one line when a plan ends, and one when it begins to wait for somebody."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from tests.support.engine import a_goal, chain, drain, plan
from tests.support.messages import answer, report, specs, work
from worker.process.container import Container


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """Lists the lines about plans since the last call, each with what it says."""
    caplog.set_level("INFO", "planner.plans")

    def said() -> list[tuple[str, dict[str, Any]]]:
        found = [(record.getMessage(), vars(record)) for record in caplog.records if record.name == "planner.plans"]
        caplog.clear()
        return found

    return said


def test_the_end_of_a_plan_is_one_line_with_state_duration_and_tokens(
    here: Container, redis: Redis, lines: Any
) -> None:
    (plan_id,) = plan(here, redis, {**a_goal(2), "goal_id": "ci-1", "tenant": "acme"})
    assert lines() == []
    while work(redis):
        drain(here)

    ((event, said),) = lines()
    assert event == "plan ended"
    assert (said["plan_id"], said["goal_id"], said["tenant"]) == (plan_id, "ci-1", "acme")
    assert said["state"] == "COMPLETED"
    assert said["duration_ms"] > 0
    assert said["tokens"] > 0
    assert "rule" not in said


def test_a_halt_is_told_with_its_rule(here: Container, redis: Redis, lines: Any) -> None:
    plan(here, redis, a_goal(1))
    for _ in range(9):
        for spec in specs(redis):
            report(redis, answer(spec, success=False, category="TEST_REGRESSION"))
        drain(here)

    ((event, said),) = lines()
    assert (event, said["state"]) == ("plan ended", "HALTED")
    assert said["rule"]


def test_a_goal_that_is_refused_ends_its_plan_in_the_log(here: Container, redis: Redis, lines: Any) -> None:
    plan(here, redis, {**a_goal(1), "limits": {"max_steps": 1}, "steps": chain(2)})

    ((event, said),) = lines()
    assert (event, said["state"]) == ("plan ended", "REJECTED")


@pytest.mark.parametrize("place", [0, 1])
def test_a_step_that_waits_for_a_person_is_told_once(here: Container, redis: Redis, lines: Any, place: int) -> None:
    steps = chain(2)
    steps[place] |= {"risk_level": "HIGH", "rollback_hint": "git checkout", "verify": "pytest"}
    (plan_id,) = plan(here, redis, {**a_goal(2), "steps": steps, "approvals": ["HIGH"]})
    work(redis)
    drain(here)

    ((event, said),) = lines()
    assert (event, said["plan_id"]) == ("plan waits for an approval", plan_id)
