"""A step that is asked for places points those behind it to the ones that its answer names."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import Mode, RiskLevel, StepType
from schemas.kinds.places import PLACES_SCHEMA
from schemas.step import MAX_FOCUS, ControllerTaskSpec, Place, PlannedStep
from tasks.features.places import MOST_READ
from tests.support.plans import Running, a_report, a_step
from tests.support.wide_steps import GLOBS, a_wide_step

NOTHING = "It needs a closer look."


def looking(*focus: Place) -> PlannedStep:
    update = {
        "mode": Mode.READ_ONLY,
        "controller_task_spec": ControllerTaskSpec(type=StepType.EXPLORE),
        "finds_places": True,
        "focus": focus,
    }
    return a_step("look", files=(), retries=0).model_copy(update=update)


def running(*steps: PlannedStep, first: PlannedStep | None = None, **more: Any) -> Running:
    return Running(first or looking(), *(steps or (a_wide_step("fix", "look"),)), files=GLOBS, **more)


def focus(plan: Running, step_id: str = "fix") -> list[tuple[str, str | None]]:
    return [(place["path"], place.get("lines")) for place in plan.facts[step_id]["focus"]]


def test_it_is_given_the_schema_of_its_answer() -> None:
    (spec,) = running().waiting("default")

    assert spec["input"] == {"schema": PLACES_SCHEMA}


@pytest.mark.parametrize(
    "output",
    [
        {"files": [{"path": "./src/a.py", "lines": "3-9", "why": "the sum"}, {"path": "src/b.py"}], "summary": "a sum"},
        'So: {"files": [{"path": "src/a.py", "lines": "3-9", "why": "x"}, {"path": "src/b.py", "lines": 1e9}]} is it.',
        {"files": [{"path": "src/a.py", "lines": "3-9"}, "src/b.py", 7, {"path": None}]},
        {"files": ["src/a.py:3-9", {"path": "src/b.py"}]},
        {"files": [{"path": "./src/a.py:7", "lines": "3-9"}, "src/b.py"]},
        "I looked at docs/a.md.\nThe sum in `src/a.py:3-9` is wrong (see src/b.py), e.g. for 0.",
    ],
)
def test_its_answer_becomes_the_focus_of_the_step_behind_it(output: Any) -> None:
    plan = running()

    plan.report(a_report("look", output=output))

    assert focus(plan) == [("src/a.py", "3-9"), ("src/b.py", None)]
    (spec,) = plan.waiting("default")
    assert [place["path"] for place in spec["focus"]] == ["src/a.py", "src/b.py"]


def test_places_count_that_the_goal_allows_and_the_step_may_change() -> None:
    plan = running(a_step("fix", "look", files=["src/fix.py"]))
    named = ["docs/a.md", "src/.env", "src/conftest.py", "../src/fix.py", "src/other.py", "src/fix.py"]

    plan.report(a_report("look", output={"files": [{"path": path, "why": "w"} for path in named]}))

    assert focus(plan) == [("src/fix.py", None)]


def test_places_of_before_come_behind_and_there_are_ten_at_most() -> None:
    old, own = Place(path="src/old.py", why="The failure names it."), Place(path="src/own.py", why="The goal names it.")
    fix = a_wide_step("fix", "look").model_copy(update={"focus": (own, old)})
    plan, full = running(fix, first=looking(old)), running(fix)

    plan.report(a_report("look", output={"files": ["src/a.py", "src/own.py"]}))
    full.report(a_report("look", output={"files": [f"src/{number}.py" for number in range(12)]}))

    assert [path for path, _ in focus(plan)] == ["src/a.py", "src/own.py", "src/old.py"]
    assert plan.facts["fix"]["focus"][1]["why"] == "look names it."
    assert [path for path, _ in focus(full)] == [f"src/{number}.py" for number in range(MAX_FOCUS)]


@pytest.mark.parametrize("output", [NOTHING, None, {"files": []}, {"files": ["docs/a.md"]}, "docs/a.md", {"files": 7}])
def test_one_without_a_place_is_asked_once_more_and_then_the_plan_goes_on(output: Any) -> None:
    plan = running(consecutive_failures=1)

    plan.report(a_report("look", output=output))

    assert ([*plan.active], plan.active["look"].attempt) == (["look"], 2)
    assert "name the places to change" in (plan.steps["look"].previous or {})["suggestion"]
    assert (plan.steps["look"].failures, plan.record.counters.consecutive) == (0, 0)
    assert plan.record.spent["failing_outcomes"] == 0
    plan.report(a_report("look", 2, output=output))
    assert ([*plan.active], plan.facts["fix"]["focus"]) == (["fix"], [])
    plan.report(a_report("fix", touched_files=["src/fix.py"]))
    assert plan.state == "COMPLETED"


def test_the_second_answer_counts_as_the_first_would_have() -> None:
    plan = running()

    plan.report(a_report("look", output=NOTHING))
    plan.report(a_report("look", output="src/a.py"))

    assert focus(plan) == [("src/a.py", None)]


def test_files_patterns_and_focus_keep_to_their_bytes() -> None:
    files = [f"src/{'x' * 480}{number}.py" for number in range(15)]
    plan = running(a_step("fix", "look", files=files, risk=RiskLevel.LOW))

    plan.report(a_report("look", output={"files": [{"path": path, "why": "w" * 200} for path in files]}))

    assert len(focus(plan)) == 0 or len(str(plan.facts["fix"]["focus"])) < 8192 - sum(map(len, files))
    assert plan.facts["fix"]["allowed_files"] == files


def answering(*steps: PlannedStep) -> Running:
    """A plan whose steps are given the answer of `look`."""
    given = (step.model_copy(update={"answers_from": ("look",)}) for step in steps)
    return running(*given)


def test_later_steps_that_are_given_the_answer_are_pointed_to_its_places_too() -> None:
    later, test = a_step("later", "fix", files=["src/b.py", "src/c.py"]), a_step("test", "later", files=["src/d.py"])
    plan = answering(a_wide_step("fix", "look"), later, test)

    plan.report(a_report("look", output="src/a.py and src/b.py:7"))

    assert focus(plan) == [("src/a.py", None), ("src/b.py", "7")]
    assert focus(plan, "later") == [("src/b.py", "7")]
    assert focus(plan, "test") == []


def test_the_newest_answer_comes_before_an_older_one() -> None:
    again = looking().model_copy(update={"step_id": "again", "depends_on": ("look",)})
    fix = a_wide_step("fix", "again").model_copy(update={"answers_from": ("again", "look")})
    plan = running(again, fix)

    plan.report(a_report("look", output="src/a.py"))
    plan.report(a_report("again", output="src/b.py"))

    assert focus(plan) == [("src/b.py", None), ("src/a.py", None)]


def test_a_plan_of_many_steps_is_not_read_whole() -> None:
    many = [a_step(f"s{number}", "fix", files=["src/a.py", f"src/s{number}.py"]) for number in range(MOST_READ)]
    plan = answering(a_wide_step("fix", "look"), *many)

    plan.report(a_report("look", output="src/a.py"))

    assert focus(plan) == [("src/a.py", None)]
    assert focus(plan, "s0") == []
