"""A red verification on a real server: the baseline, the mend, and what goes over the wire for them."""

from __future__ import annotations

from typing import Any

from redis import Redis

from tests.support.engine import a_goal, drain, plan
from tests.support.messages import answer, report, specs, work
from tests.support.stored import state
from worker.process.container import Container

OLD, NEW = "tests/test_old.py::test_it", "tests/test_new.py::test_it"
SHA = "9f1c2d4"


def a_red_plan(here: Container, redis: Redis, **more: Any) -> str:
    """Make a plan of two patches and a check, and play the patches."""
    check = {"step_id": "check", "title": "t", "intent": "i", "verify": "pytest", "depends_on": ["s-1"]}
    goal = a_goal(2, context={"base_sha": SHA}, **more)
    (made,) = plan(here, redis, {**goal, "steps": [*goal["steps"], check]})
    for _ in range(2):
        work(redis)
        drain(here)
    return made


def a_red(*tests: str, code: int = 1, **said: Any) -> dict[str, Any]:
    verify = [{"tool": "pytest", "exit_code": code}]
    body = {"success": False, "verify": verify, "failing_tests": tests, "failing_tests_complete": True}
    evidence = {"category": "TEST_REGRESSION", "top_failing_tests": tests, "affected_files": ["src/f0.py"]}
    return {**body, "failure_evidence": evidence, "touched_files": [], **said}


def last(redis: Redis, step: str) -> dict[str, Any]:
    """The newest spec, which has to be of `step`."""
    found = specs(redis)[-1]
    assert found["step_id"] == step
    return found


def test_what_was_red_before_is_excused_and_the_rest_is_mended(here: Container, redis: Redis) -> None:
    made = a_red_plan(here, redis)
    report(redis, answer(last(redis, "check"), **a_red(OLD, NEW)))
    drain(here)

    spec = last(redis, "check-baseline")
    assert (spec["context"]["at"], spec["context"]["base_sha"]) == ("base", SHA)
    report(redis, answer(spec, **a_red(OLD, success=True, verified_at=SHA)))
    drain(here)

    spec = last(redis, "check")
    assert (spec["attempt"], spec["context"]["previous_failure"]["failing_tests"]) == (2, [NEW])
    report(redis, answer(spec, **a_red(OLD, NEW)))
    drain(here)

    spec = last(redis, "check-mend")
    assert spec["allowed_files"] == ["src/f0.py", "src/f1.py"]
    assert spec["context"]["previous_failure"]["failing_tests"] == [NEW]
    report(redis, answer(spec))
    drain(here)
    report(redis, answer(last(redis, "check"), **a_red(OLD)))
    drain(here)

    assert state(redis, made) == "COMPLETED"


def test_mend_false_turns_mends_off(here: Container, redis: Redis) -> None:
    a_red_plan(here, redis, mend=False)
    report(redis, answer(last(redis, "check"), **a_red(NEW, failing_tests_complete=False)))
    drain(here)

    assert last(redis, "check")["attempt"] == 2


def test_a_check_that_was_red_before_is_not_run_any_more(here: Container, redis: Redis) -> None:
    context = {"base_sha": SHA, "language": "python", "manifests": {"pyproject.toml": "[tool.ruff]\n"}}
    goal = {"goal": "Refactor utils", "allowed_files": ["src/a.py"], "context": context}
    (made,) = plan(here, redis, goal)
    while (spec := specs(redis)[-1])["mode"] != "patch":
        report(redis, answer(spec))
        drain(here)

    found = {"success": False, "verify": [{"tool": "ruff-check", "exit_code": 1}]}
    failed = {**found, "failure_evidence": {"category": "LINT_ERROR"}}
    failed |= {"touched_files": ["src/a.py"], "created_files": []}
    report(redis, answer(spec, **failed))
    drain(here)
    asked = specs(redis)[-1]
    report(redis, answer(asked, **{**found, "success": True, "verified_at": SHA, "touched_files": []}))
    drain(here)

    again = last(redis, spec["step_id"])
    assert (spec["quick_checks"], again["quick_checks"]) == (["ruff-check"], [])
    assert (asked["context"]["at"], asked["verify"]) == ("base", "ruff check -- src/a.py")
    assert (again["attempt"], again["verify"]) == (2, "python -m py_compile src/a.py")
    assert state(redis, made) == "EXECUTING"
