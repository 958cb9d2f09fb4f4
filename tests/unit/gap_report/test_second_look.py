"""Which sources a failing test leads to, and where the cause is looked for when patching these did not help."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.kinds.gap_report import MAX_TARGETS
from tasks.rules.strategy import End, LivePlan
from tasks.rules.validation import validate
from tasks.strategies import gap_report
from tasks.strategies.gap_report.places import Places
from tasks.strategies.gap_report.suspects import imported
from tasks.toolchain.catalogue import CATALOGUE
from tests.corpus.goals import scene
from tests.corpus.play import Player
from tests.support.kinds.gap_report import NOW, a_gap, a_goal, drafted, targets
from tests.support.plans import a_report, fail_and_rest

TEST = "tests/test_cart.py"
EVIDENCE = f"FAILED {TEST}::test_it - ValueError: x\nshop/cart.py:3: ValueError\n"
RED = {"top_failing_tests": [f"{TEST}::test_it"], "stack_trace_head": "ValueError: x"}
SOURCES = ["shop/cart.py", *(f"shop/m{number}.py" for number in range(8))]


def a_failing_test(
    tool: str = "pytest", evidence: str = EVIDENCE, allowed: list[str] | None = None, **more: Any
) -> Any:
    allowed = [*SOURCES, TEST] if allowed is None else allowed
    gap = a_gap(f"Quality check failed: {tool}", "quality", evidence=evidence)
    return a_goal(gap, allowed=allowed, files=[*SOURCES, TEST], **more)


def playing(goal: Any) -> Player:
    return Player(scene(goal.model_dump(mode="json", exclude_unset=True)))


def failing(plan: Player, step: str, times: int = 2) -> None:
    for _ in range(times):
        fail_and_rest(plan, step, "TEST_REGRESSION", **RED)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from shop.rates import rate\n", ["shop/rates.py"]),
        ("    from shop import rates, tax as t\n", ["shop/rates.py", "shop/tax.py"]),
        ("import shop.tax\n", ["shop/tax.py"]),
        ("from ..rates import rate\n", ["shop/rates.py"]),
        ("import { rate } from '../src/rates'\n", ["src/rates.ts"]),
        ('const x = require("../src/pages/index.js")\n', ["src/pages/index.ts"]),
        ("from shop.pay import pay\n", ["shop/pay/__init__.py"]),
        ("the rates of the shop\n", []),
    ],
)
def test_imports_are_read_as_paths(text: str, found: list[str]) -> None:
    sources = ["shop/rates.py", "shop/tax.py", "shop/pay/__init__.py", "src/rates.ts", "src/pages/index.ts"]

    named = [path for path in imported([text], sources) if path.startswith(found[0].split("/")[0] if found else "")]

    assert named == found


def test_what_a_failing_test_imports_is_a_suspect_beside_what_its_traceback_names() -> None:
    read = {TEST: "from shop.cart import total\nfrom shop import m3\n"}

    assert targets(a_failing_test(context={"documents": read})) == [
        ("modify", (TEST, "shop/cart.py", "shop/m3.py")),
    ]


def test_tests_and_suspects_are_one_step_that_the_failing_tests_judge() -> None:
    patch, _ = drafted(a_failing_test()).steps
    without_test, _ = drafted(a_failing_test(allowed=SOURCES)).steps
    few, _ = drafted(a_failing_test(allowed=[*SOURCES[:3], TEST])).steps

    assert patch.allowed_files == ("shop/cart.py", TEST)
    assert without_test.allowed_files == ("shop/cart.py",)
    assert few.allowed_files == ("shop/cart.py", TEST, "shop/m0.py", "shop/m1.py")
    assert {step.verify.split(" && ")[-1] for step in (patch, without_test, few)} == {f"pytest -q -- {TEST}::test_it"}


def test_a_source_that_is_yet_to_be_made_is_not_patched_for_a_test_that_fails() -> None:
    allowed = [*SOURCES[:2], "shop/new.py", TEST]
    patch, _ = drafted(a_failing_test(allowed=allowed)).steps
    unnamed, *_ = drafted(a_failing_test(evidence=f"FAILED {TEST}::test_it\n", allowed=allowed)).steps

    assert patch.allowed_files == unnamed.allowed_files == ("shop/cart.py", TEST, "shop/m0.py")


def test_of_sources_that_are_yet_to_be_made_a_plan_keeps_no_more_than_an_action_may_have() -> None:
    new = [f"shop/new{number:03}.py" for number in range(MAX_TARGETS + 50)]
    places = Places.of([*SOURCES, TEST], [*SOURCES, *new, TEST])

    assert places.absent == tuple(new[:MAX_TARGETS])
    assert Places.of([], new).absent == ()  # which files there are nobody said


def test_where_the_patch_fails_twice_alike_the_cause_is_looked_for_and_patched() -> None:
    plan = playing(a_failing_test())

    failing(plan, "action-1")

    assert (plan.state, plan.states["action-1"], plan.states["verify"]) == ("EXECUTING", "FAILED", "SKIPPED")
    spec = plan.specs[-1]
    assert (spec["step_id"], spec["controller_task_spec"]["type"]) == ("explore-scope", "EXPLORE")
    assert spec["input"]["failure"]["failing_tests"] == [f"{TEST}::test_it"]
    assert set(spec["input"]["files"]) == {*SOURCES, TEST}
    assert f"Patching {TEST}, shop/cart.py did not help" in spec["intent"]
    plan.report(a_report("explore-scope", touched_files=[], output={"files": ["shop/m5.py"], "notes": "line 7"}))
    assert plan.specs[-1]["allowed_files"] == ["shop/m5.py"]
    assert plan.specs[-1]["context"]["answers"][0]["step_id"] == "explore-scope"
    plan.report(a_report("action-1-r2", touched_files=["shop/m5.py"]))
    plan.report(a_report("verify-r2", touched_files=[]))
    assert plan.state == "COMPLETED"


def test_it_is_looked_for_once_also_where_a_mend_failed() -> None:
    plan = playing(a_failing_test())
    plan.report(a_report("action-1", touched_files=["shop/cart.py"]))
    failing(plan, "verify", 1)

    failing(plan, "verify-mend")

    assert (plan.states["verify-mend"], plan.states["verify"]) == ("FAILED", "FAILED")
    plan.report(a_report("explore-scope", touched_files=[], output={"files": ["shop/m5.py"]}))
    failing(plan, "action-1-r2")
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "identical_failure")


def test_mistakes_between_do_not_keep_the_cause_from_being_looked_for() -> None:
    plan = playing(a_failing_test())
    failing(plan, "action-1", 1)
    fail_and_rest(plan, "action-1", "COMPILATION_ERROR", stack_trace_head="SyntaxError: invalid syntax")
    if "action-1-syntax-check" in plan.active:
        plan.report(a_report("action-1-syntax-check", touched_files=[]))

    failing(plan, "action-1", 2)

    assert (plan.state, plan.states["action-1"], list(plan.active)) == ("EXECUTING", "FAILED", ["explore-scope"])


def test_three_failures_in_a_row_have_the_cause_looked_for_once_and_a_fourth_one_halts() -> None:
    plan = playing(a_failing_test(limits={"identical_failures": 9}))

    failing(plan, "action-1", 3)

    assert (plan.state, plan.record.counters.consecutive, [*plan.active]) == ("EXECUTING", 3, ["explore-scope"])
    fail_and_rest(plan, "explore-scope", "UNKNOWN")
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "consecutive_failures")


def test_a_look_for_the_cause_that_names_nothing_twice_ends_the_plan() -> None:
    plan = playing(a_failing_test())
    failing(plan, "action-1")

    plan.report(a_report("explore-scope", touched_files=[], output="I do not know."))
    assert plan.active["explore-scope"].attempt == 2
    plan.report(a_report("explore-scope", 2, touched_files=[], output="I do not know."))
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "plan_unfit")
    assert plan.halt["reason"].endswith("None of the files that were found may be changed.")


def test_a_look_for_the_cause_that_is_skipped_leaves_all_that_is_allowed() -> None:
    goal = a_failing_test()
    draft = drafted(goal)
    assert draft.state is not None
    looking = gap_report.stuck(LivePlan(goal, draft.state, draft.document, NOW), CATALOGUE)
    assert looking is not None
    live = LivePlan(goal, looking.state, looking.document, NOW)

    skipped = gap_report.advance(live, End("explore-scope", {}, "SKIPPED"), CATALOGUE)

    assert skipped is not None
    assert skipped.halt is None
    assert {path for step in skipped.steps for path in step.allowed_files} == {*SOURCES, TEST}
    assert {step.step_id.endswith("-r2") for step in skipped.steps} == {True}
    assert validate(goal, skipped.steps, CATALOGUE) == ()


def test_a_cause_that_is_found_ends_a_row_of_failures() -> None:
    plan = playing(a_failing_test(limits={"identical_failures": 9}))
    failing(plan, "action-1", 3)

    plan.report(a_report("explore-scope", touched_files=[], output={"files": ["shop/m5.py"]}))
    failing(plan, "action-1-r2", 2)
    assert plan.state == "EXECUTING"
    failing(plan, "action-1-r2")
    assert (plan.state, plan.halt["rule"], plan.halt["evidence"]["value"]) == ("HALTED", "consecutive_failures", 3)


@pytest.mark.parametrize(
    ("tool", "limits"),
    [
        ("ruff", {"identical_failures": 9}),  # lint is where it was found
        ("pytest", {"failing_outcomes": 1, "identical_failures": 9}),  # a budget stays one
    ],
)
def test_other_plans_halt_after_three_failures_in_a_row(tool: str, limits: dict[str, int]) -> None:
    plan = playing(a_failing_test(tool, limits=limits))

    failing(plan, "action-1", 2 if "failing_outcomes" in limits else 3)

    assert plan.state == "HALTED"


def test_a_cause_that_may_not_be_changed_ends_the_plan_by_its_name() -> None:
    plan = playing(a_failing_test())
    failing(plan, "action-1")

    plan.report(a_report("explore-scope", touched_files=[], output={"files": ["kernel/clock.py"]}))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "plan_unfit")
    assert "kernel/clock.py" in plan.halt["reason"]


@pytest.mark.parametrize(
    ("tool", "evidence", "looks"),
    [
        ("pytest", EVIDENCE, True),
        ("mypy", "shop/cart.py:3: error: x  [arg-type]\n", True),
        ("ruff", "shop/cart.py:3:1: F401 x\n", False),
        ("pytest", "", False),  # it began with an exploration
    ],
)
def test_what_a_linter_finds_has_its_cause_where_it_was_found(tool: str, evidence: str, looks: bool) -> None:
    goal = a_failing_test(tool, evidence)
    draft = drafted(goal)
    assert draft.state is not None
    live = LivePlan(goal, draft.state, draft.document, NOW)

    made = gap_report.stuck(live, CATALOGUE)

    assert (made is not None) is looks
    if not looks:
        end = End(draft.steps[0].step_id, {}, "FAILED", failure={"category": "TEST_REGRESSION"})
        noted = gap_report.advance(live, end, CATALOGUE)
        assert noted is None or not noted.steps


def test_names_of_both_rounds_differ() -> None:
    plan = playing(a_failing_test())
    failing(plan, "action-1")
    plan.report(a_report("explore-scope", touched_files=[], output={"files": SOURCES}))

    again = {"action-1-r2", "action-2-r2", "verify-r2"}
    assert plan.states.keys() == {"action-1", "verify", "explore-scope", *again}
