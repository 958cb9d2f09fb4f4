"""What `planner explain` makes of a plan's log."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.base.policy_version import POLICY_VERSION
from tasks.policy.starts import SILENT_MS
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.growing import Script, goes_on, growing
from tests.support.plans import PLAN, PYTEST, Running, a_check, a_failure, a_report, a_step
from worker.store.history import Story, story_of


def story(plan: Running) -> Story:
    return story_of(plan.log, plan.facts)


def short(attempts: list[dict[str, Any]]) -> list[tuple[int, str, str | None]]:
    return [(each["attempt"], each["result"], each["category"]) for each in attempts]


def test_every_attempt_is_told_with_how_it_ended() -> None:
    plan = Running(a_step("a", retries=1, tools=(PYTEST,)), a_step("b"), wall_clock_s=86_400)
    plan.report(a_report("a", tests_passed=False))
    plan.store.claim(PLAN, "a")
    plan.store.wait(SILENT_MS)
    plan.sweep()
    plan.report(a_report("b"))

    found = story(plan)

    assert short(found["a"]) == [(1, "RETRIED", "TEST_REGRESSION"), (2, "FAILED", "LEASE_EXPIRED")]
    assert short(found["b"]) == [(1, "DONE", None)]
    assert "tests did not pass" in found["a"][0]["reason"]


def test_a_halt_and_what_was_not_tried_are_told() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("c", "a"))

    plan.report(a_failure("a", category="SANDBOX_VIOLATION"))

    assert {step: short(attempts) for step, attempts in story(plan).items()} == {
        "a": [(1, "HALTED", "SANDBOX_VIOLATION")]
    }


def test_tests_that_were_red_before_are_named_where_a_step_is_done_although_they_fail() -> None:
    plan = Running(a_step("a"), a_check("t", "a"), a_check("u", "t"), base_sha="9f1c2d4")
    plan.report(a_report("a"))
    red: dict[str, Any] = {
        "verify": [{"tool": "pytest", "exit_code": 1}],
        "failing_tests": ["tests/test_old.py::test_it"],
    }
    failure = {"category": "TEST_REGRESSION", "top_failing_tests": red["failing_tests"]}
    failed: dict[str, Any] = {**red, "success": False, "failing_tests_complete": True, "failure_evidence": failure}
    plan.report(a_report("t", **failed))
    waits = short(story(plan)["t"])
    plan.report(a_report("t-baseline", **red, failing_tests_complete=True, verified_at="9f1c2d4"))
    plan.report(a_report("u", **failed))

    found = story(plan)
    assert (plan.state, waits) == ("COMPLETED", [(1, "", "TEST_REGRESSION")])
    assert [short(found[step]) for step in ("t", "u")] == [[(1, "DONE", None)]] * 2
    assert {found[step][0]["reason"] for step in "tu"} == {"red before the plan: tests/test_old.py::test_it"}
    assert found["t"][0]["revision"]["rule"] == "baseline"


def test_tests_that_were_red_before_and_may_fail_are_named_where_a_patch_is_done() -> None:
    plan = Running(a_step("a", tools=(CATALOGUE.match("pytest"),)), base_sha="9f1c2d4")
    red: dict[str, Any] = {
        "verify": [{"tool": "pytest", "exit_code": 1}],
        "failing_tests": ["tests/test_old.py::test_it"],
        "failing_tests_complete": True,
    }
    failure = {"category": "TEST_REGRESSION", "top_failing_tests": red["failing_tests"]}
    plan.report(a_report("a", **red, success=False, failure_evidence=failure))
    plan.report(a_report("a-baseline", **red, verified_at="9f1c2d4"))
    plan.report(a_report("a", **red, touched_files=["src/a.py"]))

    assert plan.state == "COMPLETED"
    assert story(plan)["a"][-1]["reason"] == "red before the plan: tests/test_old.py::test_it"


def test_a_revision_stands_with_the_attempt_that_led_to_it() -> None:
    plan = Running(a_step("a", tools=(CATALOGUE.match("pytest"),)))

    plan.report(a_failure("a", category="TYPE_ERROR"))

    (attempt,) = story(plan)["a"]
    assert attempt["revision"]["diff"]["inserted"] == "a-type-check"
    assert (attempt["revision"]["revision"], attempt["revision"]["policy_version"]) == (2, POLICY_VERSION)


def test_an_answer_that_was_refused_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(refuses=lambda output: None if output else "it is empty", on_end=lambda *_: goes_on(a_step("b")))
    plan = growing(monkeypatch, script, a_step("a"))
    plan.report(a_report("a"))
    plan.report(a_report("a", output="yes"))

    found = story(plan)

    assert short(found["a"]) == [(1, "RETRIED", "OUTPUT_REFUSED"), (2, "DONE", None)]
    assert found["a"][0]["reason"] == "it is empty"
