"""What becomes of tasks that fail or are blocked: their tests come again, and reports are kept."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tasks.rules.strategy import Setting
from tasks.text.blocked_report import blocked_report
from tests.support.kinds.campaign import Running, a_goal, tasks

RED = {
    "category": "TEST_REGRESSION",
    "failing_tests": ["tests/test_auth.py::test_login"],
    "trace": "assert 3 == 2",
    "suggestion": None,
}
SPEC = {"slug": "spec-auth", "type": "SPEC", "delta": ["tests/test_auth.py"], "verify": "python-syntax"}
REPORT = {
    "status": "blocked",
    "reason": "the test wants what the objective forbids",
    "tried": "to return both",
    "unknown": "which of the two counts",
    "discovery": ["auth.py is generated", "by make"],
}


def two(*more: dict[str, Any], setting: Setting = Setting()) -> Running:  # noqa: B008  a frozen value
    """A SPEC that landed, and its BUILD."""
    running = Running(a_goal(tasks=tasks(SPEC, {"slug": "build-auth", "depends": "001"}, *more)), setting)
    running.end("001-spec-auth", output="written")
    return running


def stepped(running: Running) -> dict[str, tuple[str, ...]]:
    found = running.stuck()
    assert found is not None
    return {step.step_id: step.depends_on for step in found.steps}


def test_tests_that_landed_come_again_before_what_they_keep_from_passing() -> None:
    running = two()
    running.end("002-build-auth", "FAILED", failure=RED)

    assert stepped(running) == {
        "003-find-out-build-auth-r2": (),
        "001-spec-auth-r2": ("003-find-out-build-auth-r2",),
        "002-build-auth-r2": ("001-spec-auth-r2",),
    }
    again = running.steps["001-spec-auth-r2"]
    assert again.allow_empty  # the code may have been wrong instead
    assert again.intent.startswith("Look at these tests again, and change them where they are wrong")
    assert "Task 002 could not pass (tests/test_auth.py::test_login): assert 3 == 2." in (again.guidance or "")
    told = {"task": "002", "reason": "assert 3 == 2", "category": "TEST_REGRESSION", "trace": "assert 3 == 2"}
    for step_id in ("003-find-out-build-auth-r2", "001-spec-auth-r2", "002-build-auth-r2"):
        assert running.given(step_id)["before"] == {**told, "failing_tests": ["tests/test_auth.py::test_login"]}
    for step_id in ("003-find-out-build-auth-r2", "001-spec-auth-r2", "002-build-auth-r2"):
        running.end(step_id)
    assert set(running.progress().values()) == {"complete"}


def test_what_waits_for_tests_through_a_task_that_is_complete_waits_for_them_again() -> None:
    running = two({"slug": "verify-all", "type": "VERIFY", "delta": [], "depends": "002"})
    running.end("002-build-auth")
    running.end("003-verify-all", "FAILED", failure=RED)

    assert stepped(running) == {
        "004-find-out-verify-all-r2": (),
        "001-spec-auth-r2": ("004-find-out-verify-all-r2",),
        "003-verify-all-r2": ("001-spec-auth-r2",),
    }


def test_tests_that_waited_for_one_another_come_again_together() -> None:
    second = {"slug": "spec-b", "type": "SPEC", "delta": ["tests/test_api.py"], "depends": "002"}
    running = two(second, {"slug": "build-b", "delta": ["src/api.py"], "depends": "003"})
    for step_id in ("002-build-auth", "003-spec-b"):
        running.end(step_id)
    both = {**RED, "failing_tests": ["tests/test_auth.py::test_login", "tests/test_api.py::test_b"]}
    running.end("004-build-b", "FAILED", failure=both)

    assert stepped(running) == {
        "005-find-out-build-b-r2": (),
        "001-spec-auth-r2": ("005-find-out-build-b-r2",),
        "003-spec-b-r2": ("005-find-out-build-b-r2", "001-spec-auth-r2"),
        "004-build-b-r2": ("003-spec-b-r2",),
    }


@pytest.mark.parametrize(
    "failure",
    [
        {"category": "UNKNOWN"},
        {**RED, "failing_tests": ["tests/test_api.py::test_other"]},
        {"category": "NO_CHANGE"},
        {},
    ],
)
def test_tests_that_nothing_speaks_against_stay(failure: dict[str, Any]) -> None:
    running = two()
    running.end("002-build-auth", "FAILED", failure=failure)

    assert set(stepped(running)) == {"003-find-out-build-auth-r2", "002-build-auth-r2"}


def test_tests_that_cannot_be_named_come_again_where_a_task_waits_for_them() -> None:
    running = two()
    running.end("002-build-auth", "FAILED", failure={"category": "TEST_TIMEOUT", "trace": "timed out"})

    assert "001-spec-auth-r2" in stepped(running)


def test_whoever_drafts_anew_is_told_and_may_change_the_tests() -> None:
    goal = a_goal(tasks=tasks(SPEC, {"slug": "build-auth", "depends": "001"}))
    running = Running(goal.model_copy(update={"drafter": "queue"}), Setting(drafter="queue"))
    running.end("001-spec-auth")
    running.end("002-build-auth", "FAILED", failure=RED)
    assert stepped(running) == {"draft-r2": ()}
    assert "its tests may be wrong, since 002 cannot pass: assert 3 == 2" in running.given("draft-r2")["prompt"]

    found = running.end("draft-r2", output={"tasks": tasks({**SPEC, "slug": "spec-again"})})
    assert found is not None
    assert {step.step_id: step.depends_on for step in found.steps} == {
        "001-spec-again-r2": (),
        "002-build-auth-r2": ("001-spec-again-r2",),
    }


def test_what_a_blocked_task_reports_is_kept_and_given_on() -> None:
    running = two()
    running.end("002-build-auth", "FAILED", REPORT)
    kept = {name: REPORT[name] for name in ("reason", "tried", "unknown")}
    kept["discovery"] = "auth.py is generated\nby make"

    assert (running.document or {})["progress"]["002"] == {"status": "blocked", **kept}
    assert set(stepped(running)) == {"003-find-out-build-auth-r2", "002-build-auth-r2"}
    assert running.given("002-build-auth-r2")["before"] == {"task": "002", **kept, "failing_tests": []}


@pytest.mark.parametrize(
    ("report", "failure"),
    [
        ({**REPORT, "discovery": "tests/test_auth.py asks for 3"}, None),
        (REPORT, RED),
    ],
)
def test_tests_that_a_report_blames_come_again(report: dict[str, Any], failure: dict[str, Any] | None) -> None:
    running = two()
    running.end("002-build-auth", "FAILED", report, failure=failure)

    assert "001-spec-auth-r2" in stepped(running)


def test_tests_come_again_twice_beyond_what_an_operator_allows_and_no_oftener() -> None:
    running = two()
    running.end("002-build-auth", "FAILED", failure=RED)
    for again in ("-r2", "-r3"):
        assert f"001-spec-auth{again}" in stepped(running)
        for step_id in list(running.steps):
            if step_id.endswith(again) and "build-auth" not in step_id.replace("find-out-build-auth", ""):
                running.end(step_id)
        running.end(f"002-build-auth{again}", "FAILED", failure=RED)

    assert running.stuck() is None
    never = two(setting=Setting(options={"max_replans": 0}))
    never.end("002-build-auth", "FAILED", failure=RED)
    assert never.stuck() is None


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (REPORT, REPORT["reason"]),
        ('```json\n{"status": "blocked", "reason": "no access"}\n```', "no access"),
        ("BLOCKED: no access\nTried: the mirror\n- Unknown: its host", "no access"),
        ("**BLOCKED:** Reason: no access", "no access"),
        ('{"status": "blocked", "reason": "no access"}', "no access"),
        ({"status": "blocked"}, None),
        ({"status": "blocked", "reason": " ", "user": "bob"}, None),
        ('{"status": "blocked"}', None),
        ('Done: the route returns\n```json\n{"status": "blocked", "reason": "by an admin"}\n```', None),
        ('```json\n{"status": "blocked", "reason": "by an admin"}\n```\nis what the route returns now', None),
        ('{"a": 1}\n```json\n{"status": "blocked", "reason": "by an admin"}\n```', None),
        ("BLOCKED:", "no reason was given"),
        ({"status": "complete"}, None),
        ("I was blocked: by a wall", None),
        ("blocked", None),
        ('"blocked"', None),
        (["blocked"], None),
        (None, None),
    ],
)
def test_only_a_report_says_that_a_task_is_blocked(output: Any, reason: str | None) -> None:
    found = blocked_report(output)

    assert (found and found["reason"]) == reason
    if isinstance(output, str) and "Tried" in output:
        assert found == {"reason": "no access", "tried": "the mirror", "unknown": "its host"}


@pytest.mark.parametrize("run", ["\n", " ", "\t", "> ", "*", "#-", "\n*", "Tried ", "Tried\n", "Tried*", "Reason:"])
def test_a_hostile_report_is_read_in_no_time(run: str) -> None:
    began = time.process_time()
    found = blocked_report(f"BLOCKED: x{run * 20_000}y")

    assert found is not None
    assert time.process_time() - began < 0.5
