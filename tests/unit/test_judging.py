"""Which steps are judged by the tests of the base and by those that are held out, and what becomes of a failure."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.goal import Goal
from schemas.step import JudgedBy
from tasks.features.judging import BASE_JUDGES, HELD_OUT, assign_added, assign_judges
from tasks.plan.snapshot import NOTE
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.starts import SILENT_MS
from tasks.rules.judging import MOST_OWN, base_judges
from tasks.rules.strategy import Draft
from tasks.strategies.task.strategy import draft
from tests.support.plans import PYTEST, Running, a_check, a_failure, a_report, a_step
from worker.store.plans import Ask

DIGEST = f"sha256:{7:064x}"
DIVERGES = {"kind": "tests_diverge", "path": "tests/expected.py", "line": 1, "what": "-SUM = 4 +SUM = 0"}
BY_HELD_OUT = {"base": False, "own": [], "holdout": DIGEST}


def a_goal(**said: Any) -> Goal:
    context = {"base_sha": "abc", "language": "python", "test_command": "pytest -q"}
    return Goal.model_validate(
        {"goal": "Fix the crash in src/a.py", "allowed_files": ["src/a.py", "tests/test_a.py"], "context": context}
        | said
    )


def judged(goal: Goal) -> dict[str, JudgedBy]:
    found = draft(goal)
    assert isinstance(found, Draft)
    return {step.step_id: step.judged_by for step in assign_judges(found.steps, base_judges(goal)) if step.judged_by}


def test_the_base_judges_the_last_step_of_a_repair_but_for_the_files_that_its_goal_names() -> None:
    named = ["src/a.py", "tests/expected.txt", "conftest.py"]

    assert judged(a_goal(allowed_files=named)) == {"verify-regression": JudgedBy(base=True, own=tuple(named[1:]))}
    assert judged(a_goal(allowed_files=["src/a.py", "tests/**"])) == {"verify-regression": JudgedBy(base=True)}


def test_the_base_judges_no_goal_without_one_and_none_with_steps_of_its_own() -> None:
    supplied = [{"step_id": "a", "title": "A", "intent": "Do a", "verify": "pytest"}]

    assert judged(a_goal(context={"language": "python", "test_command": "pytest -q"})) == {}
    assert base_judges(a_goal(steps=supplied)) is None


def test_a_goal_that_names_too_many_files_of_tests_is_not_judged_by_the_base_and_its_plan_says_so() -> None:
    many = [f"tests/test_{number}.py" for number in range(MOST_OWN + 1)]
    plan = Running(a_step("a"), a_check("t", "a"), files=many, base_sha="abc")

    plan.report(a_report("a", touched_files=["src/a.py"]))
    plan.report(proved(None))

    assert base_judges(a_goal(allowed_files=many[1:])) == JudgedBy(base=True, own=tuple(many[1:]))
    assert plan.state == "COMPLETED"
    assert "names more than 100 files of tests" in (plan.record.doubt or "")


def test_files_of_tests_that_a_step_is_about_are_the_plans_too() -> None:
    about = a_check("t", "a").model_copy(update={"judged_by": JudgedBy(own=("tests/test_b.py",))})
    judges = JudgedBy(base=True, own=("tests/test_a.py",))

    assert assign_judges([a_step("a"), about], None)[1].judged_by is None
    assert assign_judges([a_step("a"), about], judges)[1].judged_by == JudgedBy(
        base=True, own=("tests/test_a.py", "tests/test_b.py")
    )


def proved(judged: Any, step_id: str = "t") -> Any:
    """A success of a step with a whole report of its tests."""
    tests = {"passed": 1, "collected": 1}
    receipt = {"tool": "pytest", "exit_code": 0, "report": "whole", "tests": tests}
    told = {"judged": judged} if judged else {}
    return a_report(step_id, tests_passed=True, touched_files=[], verify=[receipt], **told)


@pytest.mark.parametrize(
    ("judged", "told"),
    [
        ({"base": "same"}, None),
        ({"base": "diverges"}, None),
        ({"base": "not_run"}, "unverified: the tests of the base could not run"),
        (None, "unverified: no controller reported a verdict of the base's tests"),
    ],
)
def test_a_plan_says_where_the_tests_of_the_base_did_not_judge_it(judged: Any, told: str | None) -> None:
    plan = Running(a_check("a"), a_check("t", "a").model_copy(update={"judged_by": JudgedBy(base=True)}))
    plan.report(proved(None, "a"))

    plan.report(proved(judged))

    assert (plan.state, plan.record.doubt) == ("COMPLETED", told)


def test_no_step_that_changes_files_is_judged() -> None:
    """It could be split into pieces, which are not the last."""
    steps = assign_judges([a_step("a", tools=(PYTEST,)), a_step("b", "a", tools=(PYTEST,))], JudgedBy(base=True))

    assert [step.judged_by for step in steps] == [None, None]


def test_the_spec_has_what_judges_and_nothing_where_nothing_does() -> None:
    judging = a_check("t", "a").model_copy(update={"judged_by": JudgedBy(base=True, own=("tests/test_a.py",))})
    plan = Running(a_step("a"), judging)
    (usual,) = plan.waiting("default")
    plan.report(a_report("a", touched_files=["src/a.py"]))

    spec = spec_of(plan, "t")
    assert spec["judged_by"] == {"base": True, "own": ["tests/test_a.py"], "holdout": None}
    assert "judged_by" not in usual


def spec_of(plan: Running, step_id: str) -> dict[str, Any]:
    return next(each for each in reversed(plan.waiting("default")) if each["step_id"] == step_id)


def diverging(attempt: int) -> Any:
    integrity = {"counts": {"tests_diverge": 1}, "places": [DIVERGES]}
    return a_report("t", attempt, touched_files=[], integrity=integrity)


def test_a_repair_whose_tests_diverge_is_mended_once_then_halts() -> None:
    plan = Running(a_step("a"), a_check("t", "a"), sentence="Fix the crash in src/a.py")
    plan.report(a_report("a", touched_files=["src/a.py"]))

    plan.report(diverging(1))

    assert (plan.steps["t"].previous or {})["category"] == "TESTS_DIVERGE"
    assert "-SUM = 4 +SUM = 0" in (plan.steps["t"].previous or {})["trace"]
    assert plan.states["t-mend"] == "ACTIVE"
    plan.report(a_report("t-mend", touched_files=["src/a.py"]))
    plan.report(diverging(2))
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "integrity")


@pytest.mark.parametrize("sentence", ["Add an option for dates", "Fix the crash and update the tests"])
def test_a_feature_and_a_repair_that_asks_for_other_tests_are_told(sentence: str) -> None:
    plan = Running(a_step("a"), a_check("t", "a"), sentence=sentence)
    plan.report(a_report("a", touched_files=["src/a.py"]))

    plan.report(diverging(1))

    assert plan.state == "COMPLETED"
    assert (plan.record.doubt or "").endswith("integrity: tests_diverge (tests/expected.py:1, tell)")


def holding_out(**more: Any) -> Running:
    """A plan that has done all but what held-out tests judge; its last change comes after the step that runs tests."""
    plan = Running(a_step("a"), a_check("t", "a"), a_step("b", "t"), holdout=DIGEST, **more)
    for name in "atb":
        plan.report(a_report(name, touched_files=[] if name == "t" else [f"src/{name}.py"]))
    return plan


def test_held_out_tests_judge_a_step_that_comes_once_all_others_are_done() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)), a_check("t", "a"), a_step("b", "t"), holdout=DIGEST)
    plan.report(a_report("a", touched_files=["src/a.py"]))
    plan.report(a_report("t"))
    before = [*plan.states]
    plan.report(a_report("b", touched_files=["src/b.py"]))

    assert before == ["a", "t", "b"]
    assert plan.states["t-holdout"] == "ACTIVE"
    spec = spec_of(plan, "t-holdout")
    assert (spec["judged_by"], spec["requires"], spec["mode"]) == (BY_HELD_OUT, ["holdout"], "test")
    assert [tool["tool"] for tool in spec["verify_tools"]] == ["pytest"]
    assert not any(plan.facts[name].get("judged_by") for name in "atb")
    plan.report(a_report("t-holdout", judged={"holdout": DIGEST}))
    assert plan.state == "COMPLETED"


@pytest.mark.parametrize("judged", [None, {"base": "same"}, {"holdout": f"sha256:{8:064x}"}])
def test_a_success_that_no_word_says_held_out_tests_judged_is_none(judged: Any) -> None:
    plan = holding_out()

    plan.report(a_report("t-holdout", judged=judged))
    plan.rest()

    assert (plan.state, plan.states["t-holdout"]) == ("EXECUTING", "ACTIVE")


def test_files_of_tests_that_the_goal_names_stay_the_plans_beside_held_out_tests() -> None:
    plan = holding_out(files=["src/a.py", "tests/test_a.py", "tests/**"])

    assert spec_of(plan, "t-holdout")["judged_by"]["own"] == ["tests/test_a.py"]


def test_a_delivery_comes_after_held_out_tests() -> None:
    plan = holding_out(delivery={"push": True})

    assert "land" not in plan.states
    plan.report(a_report("t-holdout", judged={"holdout": DIGEST}))
    assert plan.states["land"] == "ACTIVE"


@pytest.mark.parametrize("category", ["TEST_REGRESSION", "NO_PROOF"])
def test_a_plan_that_held_out_tests_refuse_halts_and_is_not_mended(category: str) -> None:
    plan = holding_out()

    plan.report(a_failure("t-holdout", category=category))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "holdout")
    assert [*plan.states] == ["a", "t", "b", "t-holdout"]


def test_a_step_that_held_out_tests_judge_is_tried_again_if_its_controller_goes_silent() -> None:
    plan = holding_out()
    plan.store.claim(plan.plan_id, "t-holdout")

    plan.store.wait(SILENT_MS)
    plan.sweep()

    assert (plan.state, plan.states["t-holdout"]) == ("EXECUTING", "ACTIVE")


def test_a_step_that_held_out_tests_judge_is_tried_again_if_its_controller_has_trouble() -> None:
    """Such as a full disk, of which nobody says that the tests failed; not for ever."""
    plan = holding_out()

    plan.report(a_failure("t-holdout", 1, category="UNKNOWN"))
    plan.rest()
    between = plan.state, plan.states["t-holdout"]
    plan.report(a_failure("t-holdout", 2, category="UNKNOWN"))

    assert between == ("EXECUTING", "ACTIVE")

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "holdout")
    assert [*plan.states] == ["a", "t", "b", "t-holdout"]


def test_a_plan_that_ran_no_tests_is_not_completed_without_being_judged() -> None:
    plan = Running(a_step("a"), holdout=DIGEST)

    plan.report(a_report("a", touched_files=["src/a.py"]))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "holdout")


def test_held_out_tests_run_like_the_last_tests_of_what_a_plan_expands_to() -> None:
    plan = Running(a_step("a"), a_check("t", "a"), holdout=DIGEST)
    later = [a_step("c"), a_check("u", "c", commands=("pytest tests/u",))]
    kept = added(plan, *later)

    assert kept["after"]["step_id"] == "u"
    assert added(plan, a_step("d"))["after"]["step_id"] == "t"


def added(plan: Running, *steps: Any) -> dict[str, Any]:
    """Add steps as an expansion does, and read what is kept of the last tests."""
    unit = UnitOfWork(plan.begin(Ask(plan.plan_id, [NOTE + HELD_OUT, NOTE + BASE_JUDGES])))
    assign_added(unit, steps)
    found: dict[str, Any] = unit.note(HELD_OUT)
    return found
