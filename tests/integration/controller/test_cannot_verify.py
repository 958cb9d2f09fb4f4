"""The reference controller tells a verification that could not run from one that is red."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.controlling import FIX, PYTEST, Planner, Repo, evidence

pytestmark = pytest.mark.outages  # each has a controller, agents and git

Start = Callable[..., None]


def send_at_base(planner: Planner, repo: Repo, *tools: Any) -> str:
    """Ask for a verification of the commit that the plan begins with; returns that commit."""
    sha = repo.git("rev-parse", "HEAD")
    planner.send("look", mode="test", verify_tools=[*tools], context={"base_sha": sha, "at": "base"})
    return sha


def a_tool(tool: str, *argv: str, passes: tuple[int, ...] = (0, 1)) -> dict[str, Any]:
    return {"tool": tool, "argv": argv, "timeout_s": 60, "pass_codes": passes}


def test_a_program_that_is_missing_at_the_base_is_told_with_the_receipts(
    planner: Planner, repo: Repo, start: Start
) -> None:
    sha = send_at_base(planner, repo, {**PYTEST, "pass_codes": [0, 1]}, a_tool("eslint", "no-such-program", "src"))
    start()

    outcome = planner.outcome("look")

    assert (outcome.success, outcome.released, outcome.verified_at) == (False, None, sha)
    assert outcome.cannot_verify
    assert outcome.cannot_verify.tool == "eslint"
    assert "no-such-program" in outcome.cannot_verify.reason
    assert [each.exit_code for each in outcome.verify or ()] == [1, 127]


def test_a_file_that_is_not_there_at_the_base_could_not_be_tested(planner: Planner, repo: Repo, start: Start) -> None:
    send_at_base(planner, repo, a_tool("pytest", "pytest", "-q", "backend/test_calc.py"))
    start()

    outcome = planner.outcome("look")

    assert outcome.cannot_verify
    assert "file or directory not found" in outcome.cannot_verify.reason


def test_what_is_red_at_the_base_did_run(planner: Planner, repo: Repo, start: Start) -> None:
    send_at_base(planner, repo, {**PYTEST, "pass_codes": [0, 1]})
    start()

    outcome = planner.outcome("look")

    assert outcome.success
    assert outcome.cannot_verify is None
    assert outcome.failing_tests == ("test_calc.py::test_adds",)


@pytest.mark.parametrize(
    "intent",
    [
        "write('test_calc.py', 'from calc import no_such_name')",  # breaks collection
        "os.remove('test_calc.py')",  # deletes the failing test
    ],
)
def test_a_change_after_which_the_tests_cannot_run_has_failed(
    planner: Planner, repo: Repo, start: Start, intent: str
) -> None:
    planner.send("fix", intent=intent, allowed_files=["test_calc.py"], verify_tools=[PYTEST])
    start()

    outcome = planner.outcome("fix")

    assert evidence(outcome)
    assert (outcome.cannot_verify, outcome.released) == (None, None)
    assert repo.landed() == []


def test_a_change_that_keeps_all_that_runs_is_verified(planner: Planner, repo: Repo, start: Start) -> None:
    planner.send("fix", intent=FIX, allowed_files=["calc.py"], verify_tools=[PYTEST])
    start()

    assert planner.outcome("fix").success
