"""`All ... pass` without a word of what fails: the check is run, and what it finds is patched until it passes."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import StepType
from tasks.strategies.gap_report.places import Places
from tasks.strategies.gap_report.suspects import with_suspects
from tasks.text.forbidden_paths import JUDGED
from tests.corpus.goals import scene
from tests.corpus.play import Player
from tests.support.kinds.gap_report import a_gap, a_goal, document, drafted
from tests.support.plans import a_report, fail_and_rest

FILES = [*(f"shop/m{number}.py" for number in range(12)), "tests/test_m1.py"]


def all_pass(description: str = "All code passes ruff check", **more: Any) -> Any:
    return a_goal(a_gap(description), allowed=more.pop("allowed", FILES), files=FILES, **more)


def playing(**more: Any) -> Player:
    return Player(scene(all_pass(**more).model_dump(mode="json", exclude_unset=True)))


def red(plan: Player, step: str, *lines: str, **more: Any) -> None:
    fail_and_rest(plan, step, "LINT_ERROR", stack_trace_head="\n".join(lines), **more)


@pytest.mark.parametrize(
    ("description", "verify"),
    [
        ("All code passes ruff check", "ruff check ."),
        ("All code passes mypy and ruff", "ruff check . && mypy --follow-imports=silent ."),
        ("All tests pass", "pytest -q"),
        ("All lint checks and tests pass", "ruff check . && pytest -q"),
        ("All type checks pass", "pyright ."),
        ("All checks pass", "ruff check . && pyright . && pytest -q"),
    ],
)
def test_the_check_that_the_item_names_is_run_first(description: str, verify: str) -> None:
    (step,) = drafted(all_pass(description)).steps

    assert (step.step_id, step.controller_task_spec.type, step.verify) == ("check", StepType.TEST, verify)
    assert (step.retry_limit, step.quick_checks, step.allowed_files) == (0, (), ())


def test_where_it_passes_the_gap_is_closed() -> None:
    plan = playing()

    plan.report(a_report("check", touched_files=[]))

    assert plan.state == "COMPLETED"


def test_what_it_finds_is_patched_round_by_round_until_it_passes() -> None:
    plan = playing()

    red(plan, "check", "shop/m3.py:1:1: F401 x", "shop/m1.py:2:1: F401 y", "other/z.py:1:1: F401 z")

    assert (plan.states["check"], plan.specs[-1]["allowed_files"]) == ("FAILED", ["shop/m3.py", "shop/m1.py"])
    assert plan.facts["action-1"]["quick_checks"] == []  # what was red is the gap
    plan.report(a_report("action-1", touched_files=["shop/m1.py"]))
    assert plan.specs[-1]["verify"] == "ruff check ."
    red(plan, "verify", "shop/m7.py:1:1: F401 x")
    assert plan.specs[-1]["allowed_files"] == ["shop/m7.py"]
    plan.report(a_report("action-1-r2", touched_files=["shop/m7.py"]))
    plan.report(a_report("verify-r2", touched_files=[]))
    assert plan.state == "COMPLETED"
    assert plan.record.counts["FAILED"] == 2


def test_failing_tests_lead_to_what_they_are_named_after() -> None:
    plan = playing(description="All tests pass")

    fail_and_rest(plan, "check", "TEST_REGRESSION", top_failing_tests=["tests/test_m1.py::test_it"])

    assert plan.specs[-1]["allowed_files"] == ["tests/test_m1.py", "shop/m1.py"]
    assert plan.specs[-1]["verify"].endswith("pytest -q -- tests/test_m1.py")


def test_many_failing_tests_leave_room_for_their_sources() -> None:
    tests = [f"tests/test_m{number:03}.py" for number in range(100)]
    sources = [f"shop/m{number:03}.py" for number in reversed(range(100))]
    places = Places.of([*tests, *sources], [*tests, *sources], JUDGED)

    found = with_suspects(tests, {}, "", places, 30)

    assert found[:15] == tuple(tests[:15])
    assert set(found[15:]) == {f"shop/m{number:03}.py" for number in range(15)}
    assert with_suspects(tests, {}, "", places, 200) == (*tests, *sources)
    alone = Places.of([*tests, "shop/all.py"], [*tests, "shop/all.py"], JUDGED)
    assert with_suspects(tests, {}, "", alone, 30) == (*tests[:15], "shop/all.py", *tests[15:29])


def test_where_it_names_no_file_that_may_change_somebody_looks() -> None:
    plan = playing()

    red(plan, "check", "error: something is wrong")

    assert (plan.specs[-1]["step_id"], plan.specs[-1]["input"]["failure"]["trace"]) == (
        "explore-scope",
        "error: something is wrong",
    )
    plan.report(a_report("explore-scope", touched_files=[], output={"files": ["shop/m2.py"]}))
    plan.report(a_report("action-1", touched_files=["shop/m2.py"]))
    red(plan, "verify", "shop/m3.py:1:1: F401 x")
    plan.report(a_report("action-1-r2", touched_files=["shop/m3.py"]))
    plan.report(a_report("verify-r2", touched_files=[]))
    assert plan.state == "COMPLETED"


def test_more_rounds_than_the_plan_may_have_steps_end_in_terms_of_the_goal() -> None:
    plan = playing(limits={"max_steps": 4})
    red(plan, "check", "shop/m3.py:1:1: F401 x")
    plan.report(a_report("action-1", touched_files=["shop/m3.py"]))
    red(plan, "verify", "shop/m4.py:1:1: F401 x")

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "plan_unfit")
    assert plan.halt["evidence"]["errors"] == [
        {
            "pointer": "/allowed_files",
            "code": "too_many_files",
            "message": "The files make 2 steps in addition to the 3 of the plan, and the limit is 4: "
            "raise limits.max_steps or allow fewer.",
        }
    ]


def test_rounds_have_an_end() -> None:
    plan = playing()
    red(plan, "check", "shop/m0.py:1:1: F401 x")
    for number in range(1, 5):
        suffix = f"-r{number}" if number > 1 else ""
        plan.report(a_report(f"action-1{suffix}", touched_files=plan.specs[-1]["allowed_files"]))
        red(plan, f"verify{suffix}", f"shop/m{number}.py:1:1: F401 x")

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "cannot_revise")


@pytest.mark.parametrize("category", ["UNKNOWN", "LEASE_EXPIRED", "FLAKY_TEST", "OUTPUT_REFUSED"])
def test_a_run_that_does_not_say_what_it_found_is_made_again_and_nothing_is_patched(category: str) -> None:
    plan = playing(allowed=FILES[:3])

    fail_and_rest(plan, "check", category, stack_trace_head="the controller was killed")

    assert (plan.specs[-1]["step_id"], plan.specs[-1]["verify"]) == ("check-run2", "ruff check .")
    assert not any(step.startswith("action") for step in plan.states)
    red(plan, "check-run2", "shop/m1.py:1:1: F401 x")
    assert plan.specs[-1]["allowed_files"] == ["shop/m1.py"]
    plan.report(a_report("action-1", touched_files=["shop/m1.py"]))
    fail_and_rest(plan, "verify", category)
    plan.report(a_report("verify-run2", touched_files=[]))
    assert plan.state == "COMPLETED"


def test_a_check_that_never_says_what_it_found_ends_the_plan() -> None:
    plan = playing(allowed=FILES[:3])

    for step in ("check", "check-run2", "check-run3"):
        fail_and_rest(plan, step, "UNKNOWN", stack_trace_head=f"{step}: no such container")

    assert plan.state == "HALTED"
    assert set(plan.states) == {"check", "check-run2", "check-run3"}


def test_without_a_check_that_can_be_run_it_is_planned_as_ever() -> None:
    goal = a_goal(a_gap("All pages pass"), allowed=["a.html"], files=["a.html"], context={"test_command": "make test"})
    steps = drafted(goal).steps
    assert steps[0].step_id == "check"

    named = drafted(all_pass("All tests in shop/m1.py pass"))
    assert document(named).actions[0].target_files == ("shop/m1.py",)
