"""Goal in, answer out: supplied plans, kinds without a strategy, and the speed of a large plan."""

from __future__ import annotations

import time
from typing import Any

import pytest

from schemas.base import GoalKind, Mode, StepType
from schemas.goal import Goal
from schemas.step import PlannedStep, StepEstimate
from tasks.handlers.goals import plan
from tasks.rules.strategy import Draft, NothingToDo, Rejected

FILES = ["src/a.py", "src/b.py"]


def step(step_id: str = "one", **fields: Any) -> dict[str, Any]:
    return {"step_id": step_id, "title": "t", "intent": "i"} | fields


def a_goal(*steps: dict[str, Any], **fields: Any) -> Goal:
    return Goal.model_validate({"goal": "x", "allowed_files": FILES, "steps": steps} | fields)


def planned(*steps: dict[str, Any], **fields: Any) -> tuple[PlannedStep, ...]:
    answer = plan(a_goal(*steps, **fields))
    assert isinstance(answer, Draft), answer
    return answer.steps


def errors(*steps: dict[str, Any], **fields: Any) -> list[tuple[str, str]]:
    answer = plan(a_goal(*steps, **fields))
    assert isinstance(answer, Rejected)
    return [(error.pointer, error.code) for error in answer.errors]


@pytest.mark.parametrize(
    ("fields", "kind", "mode"),
    [
        ({"allowed_files": FILES}, StepType.PATCH, Mode.PATCH),
        ({"verify": "pytest"}, StepType.TEST, Mode.TEST),
        ({}, StepType.READ, Mode.READ_ONLY),
        ({"type": "REVIEW"}, StepType.REVIEW, Mode.READ_ONLY),
        ({"mode": "read_only", "verify": "pytest"}, StepType.READ, Mode.READ_ONLY),
        ({"mode": "test", "verify": "pytest"}, StepType.TEST, Mode.TEST),
        ({"mode": "patch", "allowed_files": FILES}, StepType.PATCH, Mode.PATCH),
        ({"type": "PATCH", "mode": "patch", "allowed_files": FILES}, StepType.PATCH, Mode.PATCH),
    ],
)
def test_type_and_mode_of_a_supplied_step_follow_from_what_it_has(
    fields: dict[str, Any], kind: StepType, mode: Mode
) -> None:
    (made,) = planned(step(**fields))

    assert (made.controller_task_spec.type, made.mode) == (kind, mode)


def test_the_step_of_the_seed_comes_out_as_it_went_in() -> None:
    given = step(
        "fix-test-001",
        title="Fix failing assertion",
        intent="Update expected value in test",
        allowed_files=["tests/test_auth.py"],
        verify="pytest tests/test_auth.py -v",
    )

    (made,) = planned(given, allowed_files=["tests/test_auth.py"])

    assert made.model_dump(mode="json", include=set(given)) == given
    assert made.controller_task_spec.target_file == "tests/test_auth.py"
    assert made.verify_tools[0].argv == ("pytest", "tests/test_auth.py", "-v")


def test_what_a_supplied_step_leaves_open_is_filled_in() -> None:
    patch, read = planned(
        step(allowed_files=["./src/a.py"], estimate={"tokens": 7}), step("two", queue="slow"), queue="fast"
    )

    assert patch.allowed_files == ("src/a.py",)
    assert patch.estimate == StepEstimate(tokens=7, patch_cycles=1)
    assert (patch.queue, read.queue) == ("fast", "slow")
    assert read.estimate == StepEstimate(tokens=20_000, patch_cycles=0)


@pytest.mark.parametrize(
    ("verify", "rendered"),
    [
        ("python-quick", "python -m py_compile src/a.py && ruff check -- src/a.py"),
        ({"tool": "mypy", "args": ["src"]}, "mypy src"),
        (["ruff check src", {"tool": "pytest"}], "ruff check src && pytest"),
        ("", ""),
        (None, ""),
    ],
)
def test_verify_is_a_command_a_recipe_a_call_or_several(verify: object, rendered: str) -> None:
    (made,) = planned(step(allowed_files=["src/a.py"], verify=verify))

    assert made.verify == rendered


def test_a_supplied_step_stays_within_the_goals_files() -> None:
    assert errors(step(allowed_files=["src/a.py", "src/c.py"])) == [("/steps/0/allowed_files/1", "outside_allowlist")]
    assert planned(step(allowed_files=["src/a.py"]), allowed_files=["src/*.py"], context={"files": ["src/a.py"]})


def test_a_supplied_step_that_patches_needs_the_goals_files() -> None:
    answer = plan(a_goal(step(allowed_files=["src/a.py"]), allowed_files=[]))

    assert isinstance(answer, Rejected)
    assert answer.reason == "no_allowed_files"
    assert planned(step(), allowed_files=[])


def test_every_fault_of_a_supplied_plan_is_told_at_once() -> None:
    bad = step(
        "one",
        allowed_files=["../x"],
        verify="pytest; ls",
        risk_level="MED",
        mode="test",
        depends_on=["three"],
    )

    assert set(errors(bad, step("two", verify="sh"))) == {
        ("/steps/0/verify", "unknown_command"),
        ("/steps/0/allowed_files", "files_without_patch"),
        ("/steps/0/allowed_files/0", "path_traversal"),
        ("/steps/0/depends_on/0", "unknown_dependency"),
        ("/steps/1/verify", "unknown_command"),
    }


def test_type_and_mode_that_contradict_each_other_are_refused() -> None:
    assert errors(step(type="READ", mode="test")) == [("/steps/0/mode", "mode_type_mismatch")]


def test_a_supplied_plan_without_steps_is_refused() -> None:
    assert errors() == [("/steps", "no_steps")]


@pytest.mark.parametrize("kind", GoalKind)
def test_a_goal_of_any_kind_that_says_nothing_more_is_answered(kind: GoalKind) -> None:
    assert isinstance(plan(Goal(goal="x", kind=kind)), Rejected | NothingToDo)


@pytest.mark.outages
def test_ten_thousand_supplied_steps_are_planned_in_linear_time() -> None:
    names = [f"src/{i}.py" for i in range(10_000)]
    steps = [
        step(f"s-{i}", allowed_files=[name], verify=f"pytest tests/test_{i}.py -v", depends_on=[f"s-{i - 1}"] * (i > 0))
        for i, name in enumerate(names)
    ]
    goal = a_goal(*steps, allowed_files=names, limits={"max_steps": 10_000})
    started = time.process_time()

    answer = plan(goal)

    assert isinstance(answer, Draft)
    assert len(answer.steps) == 10_000
    assert time.process_time() - started < 5  # about 1 s here; quadratic would be minutes


def test_ten_thousand_wrong_steps_are_refused_as_fast() -> None:
    steps = [step(f"s-{i}", verify=f"pytes{i} x; rm -rf /") for i in range(10_000)]
    started = time.process_time()

    assert len(errors(*steps, limits={"max_steps": 10_000})) == 101
    assert time.process_time() - started < 5
