"""A patch that fails by what an earlier step landed, and that it may not change, waits for a mend of that."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.step import PlannedStep
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.plans import Running, a_report, a_step, fail_and_rest

PYTEST = (CATALOGUE.match("pytest -q"),)
TEST_OF_A, TEST_OF_B = "tests/test_a.py::test_one", "tests/test_b.py::test_one"
TRACE_IN_A = "src/a.py:31: ValueError"


def failing(
    *steps: PlannedStep,
    category: str = "TEST_REGRESSION",
    tests: tuple[str, ...] = (TEST_OF_B,),
    trace: str = "",
    times: int = 1,
    **more: Any,
) -> Running:
    """Play a plan whose step `b` fails, after all before it are done."""
    plan = Running(*(steps or (a_step("a"), a_step("b", "a", tools=PYTEST))), **more)
    while earlier := [step for step in plan.active if step != "b"]:
        for step in earlier:
            plan.report(a_report(step, touched_files=plan.facts[step]["allowed_files"]))
    for number in range(times):
        fail_and_rest(plan, "b", category, top_failing_tests=tests, stack_trace_head=f"{trace}\n{'again' * number}")
    return plan


def mend_of(plan: Running) -> dict[str, Any]:
    found: dict[str, Any] = plan.facts["b-mend"]
    return found


def test_a_source_that_the_trace_names_is_mended_before_the_next_attempt() -> None:
    plan = failing(trace=TRACE_IN_A)

    assert (mend_of(plan)["allowed_files"], mend_of(plan)["inserted_by"]) == (["src/a.py"], "b")
    assert [place["path"] for place in mend_of(plan)["focus"]] == ["src/a.py"]
    assert "the change of b" in mend_of(plan)["guidance"]
    assert ([*plan.active], plan.states["b"], plan.facts["b"]["depends_on"]) == (["b-mend"], "ACTIVE", ["a", "b-mend"])
    (spec,) = [each for each in plan.specs if each["step_id"] == "b-mend"]
    assert TRACE_IN_A in spec["context"]["previous_failure"]["trace"]
    plan.report(a_report("b-mend", touched_files=["src/a.py"]))
    plan.report(a_report("b", touched_files=["src/b.py"]))
    assert plan.state == "COMPLETED"


def test_a_mend_is_verified_by_its_files_and_by_tests_that_need_no_other_change() -> None:
    plan = failing(tests=(TEST_OF_A, TEST_OF_B), trace=TRACE_IN_A)

    assert mend_of(plan)["verify"].split(" && ") == ["python -m py_compile src/a.py", f"pytest -q -- {TEST_OF_A}"]


def test_a_source_that_a_failing_test_is_named_after_is_mended() -> None:
    assert mend_of(failing(tests=(TEST_OF_A,)))["allowed_files"] == ["src/a.py"]


def test_where_its_own_sources_are_named_too_they_are_tried_once_more_before() -> None:
    trace = f"src/b.py:3: in b\n{TRACE_IN_A}"

    once, twice = failing(trace=trace), failing(trace=trace, times=2)

    assert ("b-mend" in once.states, [*once.active]) == (False, ["b"])
    assert mend_of(twice)["allowed_files"] == ["src/a.py"]


@pytest.mark.parametrize(
    ("category", "trace", "mended"),
    [
        ("TEST_REGRESSION", "tests/test_x.py:12: AssertionError", False),
        ("IMPORT_ERROR", "tests/test_x.py:3: in <module>", True),
    ],
)
def test_a_test_of_an_earlier_step_is_mended_only_if_it_cannot_be_loaded(
    category: str, trace: str, mended: bool
) -> None:
    spec = a_step("a", files=["tests/test_x.py"])

    plan = failing(spec, a_step("b", "a", tools=PYTEST), category=category, tests=("tests/test_x.py",), trace=trace)

    assert ("b-mend" in plan.states) == mended


@pytest.mark.parametrize(
    ("steps", "more"),
    [
        ((a_step("a"), a_step("b", "a", tools=PYTEST)), {}),  # nothing is named but its own test
        ((a_step("a"), a_step("b", tools=PYTEST)), {"trace": TRACE_IN_A}),  # it does not wait for what is named
        ((a_step("a"), a_step("b", "a", files=["src/b.py", "src/a.py"], tools=PYTEST)), {"trace": TRACE_IN_A}),
        ((a_step("a"), a_step("b", "a", tools=PYTEST)), {"trace": TRACE_IN_A, "mend": False}),
        ((a_step("a"), a_step("b", "a", tools=PYTEST)), {"trace": TRACE_IN_A, "category": "NO_CHANGE"}),
        ((a_step("a", files=["a.lua"]), a_step("b", "a", tools=PYTEST)), {"trace": "a.lua:3: in b"}),  # none verifies
    ],
)
def test_a_patch_is_tried_again_as_it_is(steps: tuple[PlannedStep, ...], more: dict[str, Any]) -> None:
    plan = failing(*steps, **more)

    assert "b-mend" not in plan.states
    assert plan.states["b"] == "ACTIVE"


def test_a_mend_for_a_patch_is_as_risky_as_what_it_mends_and_is_approved_alike() -> None:
    steps = a_step("a", risk=RiskLevel.MED, tools=PYTEST), a_step("b", "a", tools=PYTEST)

    assert mend_of(failing(*steps, trace=TRACE_IN_A))["risk_level"] == "MED"


def test_a_mend_before_a_part_of_a_change_need_not_make_the_other_parts_compile() -> None:
    tsc = (CATALOGUE.match("npx tsc --noEmit"),)
    parts = [a_step("a", files=["src/a.ts"], tools=tsc), a_step("b", "a", files=["src/b.ts"], tools=tsc)]
    parts = [step.model_copy(update={"piece_of": "a"}) for step in parts]
    plan = failing(*parts, category="TYPE_ERROR", tests=(), trace="src/a.ts(6,5): error TS2322: no number")
    evidence = {"category": "TYPE_ERROR", "stack_trace_head": "src/b.ts(6,5): error", "affected_files": ["src/b.ts"]}

    verify = [{"tool": "tsc", "exit_code": 2}]
    plan.report(a_report("b-mend", 1, success=False, verify=verify, failure_evidence=evidence))
    plan.rest()

    assert [*plan.active] == ["b-mend"]
    assert plan.specs[-1]["verify_tools"][0]["pass_codes"] == [0, 1, 2]
