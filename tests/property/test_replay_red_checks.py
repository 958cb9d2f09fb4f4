"""The log of a plan whose checks were red is enough, too: with baselines and mends it folds to the same plan."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.step import PlannedStep
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.plans import Running, a_check, a_report, a_step
from tests.support.replay import fold_again

TESTS = ("tests/test_a.py::test_a", "tests/test_b.py::test_b")
SAID = st.fixed_dictionaries(
    {
        "success": st.booleans(),
        "failing_tests": st.lists(st.sampled_from(TESTS), unique=True),
        "failing_tests_complete": st.booleans() | st.just(True),
        "verified_at": st.sampled_from([None, "9f1c2d4"]),
        "verify": st.sampled_from([[], [{"tool": "pytest", "exit_code": 1}], [{"tool": "pytest", "exit_code": 0}]]),
        "failure_evidence": st.just({"category": "TEST_REGRESSION", "affected_files": ["src/a.py"]}),
    }
)


def made() -> Running:
    steps = [a_step("a"), a_step("b", "a"), a_check("t", "b"), a_check("u", "b"), a_step("z", "t", "u")]
    return Running(*steps, base_sha="9f1c2d4", failing=TESTS[:1])


@given(st.lists(SAID, max_size=14))
def test_the_log_folded_again_gives_the_same_plan(said: list[dict[str, Any]]) -> None:
    plan = made()
    for step in ("a", "b"):
        plan.report(a_report(step))
    for number, each in enumerate(said):
        if plan.active:
            step = sorted(plan.active)[0]
            plan.report(a_report(step, plan.active[step].attempt, **each, diff_hash=str(number)))

    fold_again(plan, made())
    assert plan.state != "COMPLETED" or plan.states["t"] == "DONE"


CHECKS = ("ruff-check", "mypy")
CODES = st.lists(st.sampled_from([0, 1, 2]), max_size=3)
FOUND = st.fixed_dictionaries(
    {
        "success": st.booleans(),
        "verified_at": st.sampled_from([None, "9f1c2d4"]),
        "verify": CODES.map(
            lambda codes: [{"tool": t, "exit_code": c} for t, c in zip((*CHECKS, "pytest"), codes, strict=False)]
        ),
        "failure_evidence": st.just({"category": "TYPE_ERROR"}),
    }
)


def made_with_checks() -> Running:
    def patch(step_id: str, *after: str) -> PlannedStep:
        tools = tuple(map(CATALOGUE.match, ("ruff check src/a.py", "mypy src/a.py", "pytest src/a.py")))
        step = a_step(step_id, *after, files=["src/a.py"], tools=tools)
        return step.model_copy(update={"quick_checks": CHECKS})

    return Running(patch("a"), patch("b", "a"), base_sha="9f1c2d4")


@given(st.lists(FOUND, max_size=12))
def test_no_patch_loses_the_verification_that_somebody_asked_for(said: list[dict[str, Any]]) -> None:
    plan = made_with_checks()
    for number, each in enumerate(said):
        if plan.active:
            step = sorted(plan.active)[0]
            plan.report(a_report(step, plan.active[step].attempt, **each, diff_hash=str(number)))

    fold_again(plan, made_with_checks())
    patches = [spec for spec in plan.specs if spec["step_id"] in "ab"]
    assert all("pytest" in {tool["tool"] for tool in spec["verify_tools"]} for spec in patches)
    base_was_red = any(
        each["verified_at"] and any(receipt["exit_code"] == 1 for receipt in each["verify"]) for each in said
    )
    assert base_was_red or all(spec["quick_checks"] == list(CHECKS) for spec in patches)
