"""What a lying controller sends over the wire, on a real server: it gains nothing by it."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.conftest import wait_until
from tests.support.engine import a_goal, create_group, drain, plan
from tests.support.messages import answer, report, specs, work
from tests.support.stored import P0, state
from worker.process.container import Container

OLD, NAMED = "tests/test_old.py::test_left", "tests/test_named.py::test_it"
SHA = "9f1c2d4"
BASE: dict[str, Any] = {
    "verify": [{"tool": "pytest", "exit_code": 1}],
    "failing_tests": [OLD, NAMED],
    "failing_tests_complete": True,
    "touched_files": [],
}
EVIDENCE = {"category": "TEST_REGRESSION", "top_failing_tests": [OLD, NAMED]}
RED: dict[str, Any] = {**BASE, "success": False, "failure_evidence": EVIDENCE}


def a_plan(here: Container, redis: Redis) -> str:
    """Make a plan of one patch and its check, and play the patch."""
    check = {"step_id": "check", "title": "t", "intent": "i", "verify": "pytest", "depends_on": ["s-0"]}
    goal = a_goal(1, context={"base_sha": SHA, "failing_tests": [NAMED]})
    (made,) = plan(here, redis, {**goal, "steps": [*goal["steps"], check]})
    work(redis)
    drain(here)
    return made


def last(redis: Redis, step: str) -> dict[str, Any]:
    """The newest spec, which has to be of `step`."""
    found = specs(redis)[-1]
    assert found["step_id"] == step
    return found


def spent(redis: Redis, plan_id: str, what: str) -> int:
    found: Any = redis.hget(P0.plan(plan_id).plan, "live")
    return int(codec.loads(found)["spent"][what])


def approve(here: Container, redis: Redis, plan_id: str, step_id: str) -> None:
    """Approve a step."""
    create_group(here, P0.commands)
    body = {"command_id": f"approve-{step_id}", "command": "approve", "scope": "step", "plan_id": plan_id}
    redis.xadd(P0.commands, {"data": codec.dumps({**body, "step_id": step_id, "actor": "ada", "reason": "read"})})
    here.context(0).engine.drain(0)  # which reads commands at once


@pytest.mark.parametrize(
    ("lie", "left"),
    [
        ({}, [OLD, NAMED]),  # of a controller that ran the plan's tip: it does not say at which commit
        ({"verified_at": "0000000"}, [OLD, NAMED]),
        ({"verified_at": SHA, "failing_tests_complete": False}, [OLD, NAMED]),
        ({"verified_at": SHA, "failing_tests": []}, [OLD, NAMED]),
        ({"verified_at": SHA, "verify": []}, [OLD, NAMED]),
        ({"verified_at": SHA, "verify": [{"tool": "pytest", "exit_code": 2}]}, [OLD, NAMED]),
        ({"verified_at": SHA}, [NAMED]),  # it names all that is wanted; what the goal names is excused by nobody
    ],
)
def test_a_lying_baseline_excuses_nothing_that_it_may_not(
    here: Container, redis: Redis, lie: dict[str, Any], left: list[str]
) -> None:
    made = a_plan(here, redis)
    report(redis, answer(last(redis, "check"), **RED))
    drain(here)

    report(redis, answer(last(redis, "check-baseline"), **{**BASE, **lie}))
    drain(here)

    assert last(redis, "check-mend")["context"]["previous_failure"]["failing_tests"] == left
    assert (state(redis, made), spent(redis, made, "failing_outcomes")) == ("EXECUTING", 1)


def test_nobody_mends_high_files_without_an_approval(here: Container, redis: Redis) -> None:
    risky = {"risk_level": "HIGH", "rollback_hint": "Take it back.", "verify": "pytest"}
    check = {"step_id": "check", "title": "t", "intent": "i", "verify": "pytest", "depends_on": ["s-0"]}
    goal = a_goal(1, approvals=["HIGH"])
    (made,) = plan(here, redis, {**goal, "steps": [{**goal["steps"][0], **risky}, check]})
    approve(here, redis, made, "s-0")
    report(redis, answer(last(redis, "s-0"), verify=[{"tool": "pytest", "exit_code": 0}]))
    drain(here)
    for _ in range(2):  # the first failure may be that of a flaky test
        report(redis, answer(last(redis, "check"), **RED))
        drain(here)
    before = len(specs(redis))

    for more in ({}, {"attempt": 1}, {"attempt": 2, "lease": "guessed"}):
        mended = {"plan_id": made, "step_id": "check-mend", "success": True, "touched_files": ["src/f0.py"], **more}
        report(redis, {"data": codec.dumps(mended)})
        drain(here)

    assert (state(redis, made), len(specs(redis))) == ("EXECUTING", before)
    status: Any = redis.hget(P0.plan(made).status, "check-mend")
    assert "DONE" not in status.decode()
    approve(here, redis, made, "check-mend")
    assert last(redis, "check-mend")["allowed_files"] == ["src/f0.py"]


def test_a_controller_that_changes_nothing_completes_no_plan_of_many_files(here: Container, redis: Redis) -> None:
    files = [f"src/part_{number}.py" for number in range(12)]
    goal = {
        "goal": "Rename the function total to grand_total",
        "allowed_files": files,
        "context": {"language": "python"},
    }
    (made,) = plan(here, redis, goal)
    pieces: set[str] = set()

    def over() -> bool:
        for spec in specs(redis):
            pieces.update([spec["step_id"]] if spec["mode"] == "patch" else [])
            receipts = [{"tool": tool["tool"], "exit_code": 0} for tool in spec["verify_tools"]]
            report(redis, answer(spec, touched_files=[], tests_passed=True, verify=receipts))
        drain(here)
        here.context(0).engine.sweep("me")
        return state(redis, made) != "EXECUTING"

    wait_until(over, timeout=60, what="the end of the plan")

    assert state(redis, made) == "HALTED"
    assert pieces == {f"implement-refactor-{number}" for number in (1, 2, 3)}
