"""An iteration whose files nobody knew: what its EXPLORE step answers becomes its patches, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.base import RiskLevel
from schemas.goal import Goal
from schemas.kinds.places import PLACES_SCHEMA
from tasks.rules.risk import RISK
from tasks.rules.strategy import End, Expansion, LivePlan
from tasks.rules.validation import validate
from tasks.strategies import gap_report
from tasks.toolchain.catalogue import CATALOGUE
from tests.corpus.goals import scene
from tests.corpus.play import Player
from tests.support.kinds.gap_report import NOW, a_gap, a_goal, document, drafted, growing, planned
from tests.support.plans import Running, a_report, fail_and_rest

FILES = [f"src/m{number}.py" for number in range(8)]


def wide(files: list[str] = FILES, **more: Any) -> Goal:
    return a_goal(a_gap("Make it nice"), allowed=files, files=files, **more)


def playing(goal: Goal) -> Player:
    return Player(scene(goal.model_dump(mode="json", exclude_unset=True)))


def unfolded(output: Any, goal: Goal | None = None, state: str = "DONE") -> Expansion:
    goal = goal or wide()
    draft = drafted(goal)
    live = growing(goal, draft)
    live = LivePlan(goal, codec.loads(codec.dumps(live.state)), codec.loads(codec.dumps(live.document)), NOW)
    end = End("explore-scope", draft.steps[0].model_dump(mode="json"), state, output)
    made = gap_report.advance(live, end, CATALOGUE)
    assert isinstance(made, Expansion)
    if made.steps:
        assert validate(goal, made.steps, CATALOGUE) == ()
    return made


def test_what_was_found_is_patched_and_verified() -> None:
    made = unfolded({"files": ["./src/m2.py", "src/m1.py", "/etc/passwd", "src/unknown.py", "src/m1.py"], "why": "x"})

    assert [(step.step_id, step.allowed_files) for step in made.steps] == [
        ("action-1", ("src/m1.py", "src/m2.py")),
        ("verify", ()),
    ]
    checks = "ruff check -- src/m1.py src/m2.py && pyright src/m1.py src/m2.py"
    assert made.steps[0].verify == f"{checks} && python -m py_compile src/m1.py src/m2.py"
    assert made.steps[1].verify == f"{checks} && pytest -q"
    assert made.document is not None
    assert made.document["actions"] == [
        {"description": "Make it nice", "target_files": ["src/m1.py", "src/m2.py"], "action_type": "modify"}
    ]
    assert made.halt is None
    assert made.why == "2 files to change."
    assert unfolded({"files": ["src/m1.py"]}).why == "1 file to change."


def test_the_patches_are_given_what_the_exploration_answered() -> None:
    answered, skipped = unfolded({"files": ["src/m1.py"], "notes": "line 7"}), unfolded(None, state="SKIPPED")

    assert drafted(wide()).steps[0].keeps_answer
    assert [step.answers_from for step in answered.steps] == [("explore-scope",), ()]
    assert {step.answers_from for step in skipped.steps} == {()}


def test_the_document_and_its_risk_follow() -> None:
    files = [*FILES, "domain/a.py"]
    goal = wide(files)

    assert planned(goal).estimated_risk == "high"
    assert (unfolded({"files": ["src/m1.py"]}, goal).document or {})["estimated_risk"] == "medium"
    assert (unfolded({"files": ["domain/a.py"]}, goal).document or {})["estimated_risk"] == "high"


@pytest.mark.parametrize(
    "output", [{"files": []}, {"files": ["elsewhere.py"]}, {"files": ["src/*.py"]}, {"files": ["src/m1.py/../../x"]}]
)
def test_if_no_file_is_named_all_may_change_in_one_step(output: Any) -> None:
    made = unfolded(output)

    assert [(step.step_id, list(step.allowed_files)) for step in made.steps] == [("action-1", FILES), ("verify", [])]
    assert (made.halt, made.why) == (None, "8 files may change.")


def test_a_red_verification_is_mended_in_the_files_that_one_step_could_change() -> None:
    steps = [step.model_copy(update={"answers_from": ()}) for step in unfolded({"files": []}).steps]
    plan = Running(*steps, files=FILES)
    plan.report(a_report("action-1", touched_files=FILES[2:3]))

    fail_and_rest(plan, "verify", "TEST_REGRESSION", top_failing_tests=["tests/test_m.py::test_one"])

    assert plan.facts["verify-mend"]["allowed_files"] == FILES


def test_riskier_files_are_apart_if_no_file_is_named() -> None:
    domain = [f"domain/d{number}.py" for number in range(3)]

    made = unfolded({"files": []}, wide([*FILES, *domain]))

    assert [(step.title, step.risk_level.value, list(step.allowed_files)) for step in made.steps[:-1]] == [
        ("Do: Make it nice (1 of 2)", "HIGH", domain),
        ("Do: Make it nice (2 of 2)", "MED", FILES),
    ]


def test_protected_files_are_not_among_what_was_found() -> None:
    goal = wide([*FILES, "seed.py"], protected_paths=["src/m1.py"])

    assert unfolded({"files": ["seed.py", "src/m1.py"]}, goal).steps[0].allowed_files == (FILES[0], *FILES[2:])
    assert unfolded({"files": ["seed.py", "src/m2.py"]}, goal).steps[0].allowed_files == ("src/m2.py",)


def test_an_exploration_that_an_operator_skipped_leaves_all_that_is_allowed() -> None:
    made = unfolded(None, state="SKIPPED")

    assert [path for step in made.steps for path in step.allowed_files] == FILES


@pytest.mark.parametrize(
    "output",
    [
        {"files": [{"path": "src/m2.py", "lines": "3-9", "why": "the sum"}], "summary": "It adds wrongly."},
        'I looked. {"files": ["src/m2.py"]} is what I would change.',
        "The sum in `src/m2.py:3` is wrong.",
        ["src/m2.py"],
    ],
)
def test_places_are_read_as_json_and_out_of_prose(output: Any) -> None:
    assert unfolded(output).steps[0].allowed_files == ("src/m2.py",)


def test_more_than_a_plan_may_have_halts_it() -> None:
    made = unfolded({"files": FILES}, wide(limits={"max_steps": 2}))

    assert made.halt is not None
    assert [error["code"] for error in made.halt[2]["errors"]] == ["too_many_files"]


def test_a_gap_that_failed_before_stays_at_high_risk() -> None:
    goal = wide()
    streak = drafted(goal).streak or ""
    draft = drafted(goal, {streak: 1})
    end = End("explore-scope", {}, "DONE", {"files": ["src/m1.py"]})

    made = gap_report.advance(growing(goal, draft), end, CATALOGUE)

    assert made is not None
    assert made.steps[0].risk_level == "HIGH"


@pytest.mark.parametrize(
    "output", [None, "no idea", [], {}, {"files": []}, {"files": [1]}, {"files": [[]]}, "docs/a.md"]
)
def test_one_that_names_no_file_is_asked_once_more_and_then_the_plan_goes_on(output: Any) -> None:
    plan = playing(wide(limits={"consecutive_failures": 1}))

    plan.report(a_report("explore-scope", touched_files=[], output=output))

    assert ([*plan.active], plan.active["explore-scope"].attempt) == (["explore-scope"], 2)
    assert "name the places to change" in plan.specs[-1]["context"]["previous_failure"]["suggestion"]
    assert (plan.specs[-1]["input"]["files"], plan.specs[-1]["input"]["schema"]) == (FILES, PLACES_SCHEMA)
    assert (plan.steps["explore-scope"].failures, plan.record.spent["failing_outcomes"]) == (0, 0)
    plan.report(a_report("explore-scope", 2, touched_files=[], output=output))
    assert (plan.state, plan.specs[-1]["step_id"], plan.specs[-1]["allowed_files"]) == ("EXECUTING", "action-1", FILES)
    assert plan.specs[-1]["limits"]["max_files"] == RISK[RiskLevel.MED].max_files
    plan.report(a_report("action-1", touched_files=["src/m1.py"]))
    plan.report(a_report("verify", touched_files=[]))
    assert plan.state == "COMPLETED"


def test_the_second_answer_counts_as_the_first_would_have() -> None:
    plan = playing(wide())

    plan.report(a_report("explore-scope", touched_files=[], output="no idea"))
    plan.report(a_report("explore-scope", 2, touched_files=[], output={"files": ["src/m1.py"]}))

    assert plan.specs[-1]["allowed_files"] == ["src/m1.py"]


def test_the_answers_of_other_steps_are_not_refused() -> None:
    goal = wide()
    facts = drafted(goal).steps[0].model_dump(mode="json")

    assert gap_report.refusal(growing(goal, drafted(goal)), facts | {"step_id": "action-1"}, None) is None


@pytest.mark.parametrize(
    ("step_id", "state"), [("action-1", "DONE"), ("verify", "FAILED"), ("explore-scope", "FAILED")]
)
def test_the_end_of_another_step_or_a_failed_exploration_unfolds_nothing(step_id: str, state: str) -> None:
    goal = wide()
    end = End(step_id, {}, state, {"files": FILES})

    assert gap_report.advance(growing(goal, drafted(goal)), end, CATALOGUE) is None


def test_an_iteration_asks_nothing_and_is_not_saved() -> None:
    live = growing(wide(), drafted(wide()))

    assert isinstance(gap_report.answer(live, "yes", CATALOGUE), str)
    assert gap_report.stuck(live, CATALOGUE) is None


def test_the_project_is_read_as_when_the_plan_was_made() -> None:
    files = [f"src/m{number}.txt2" for number in range(8)]
    goal = wide(files, context={"manifests": {"pyproject.toml": ""}})
    draft = drafted(goal)
    kept = goal.model_copy(update={"context": goal.context.model_copy(update={"manifests": {}})})
    end = End("explore-scope", {}, "DONE", {"files": files[:1]})

    made = gap_report.advance(growing(kept, draft), end, CATALOGUE)

    assert made is not None
    assert made.steps[-1].verify == "pytest -q"  # the manifest configures no check
    assert document(draft).iteration_id in made.steps[0].intent
