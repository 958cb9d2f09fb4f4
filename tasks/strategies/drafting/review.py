"""Makes the step that reviews a supplied plan: it runs all tests, and quick checks on the changed files."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.base import Mode, StepType
from schemas.step import ControllerTaskSpec, PlannedStep
from tasks.rules.risk import estimate
from tasks.strategies.drafting.project import Project
from tasks.toolchain.command_lines import render

REVIEW = "review-changes"


def review_step(project: Project, steps: Sequence[PlannedStep]) -> PlannedStep:
    """Return a step that waits for all of `steps` and runs the project's tests, if any are known."""
    awaited = {name for step in steps for name in step.depends_on}
    return PlannedStep(
        step_id=_free_name({step.step_id for step in steps}),
        title="Review the changes of the plan",
        intent="Run all tests, and the quick checks on all files that the plan changed.",
        verify=render(project.tests),
        verify_tools=project.tests,
        controller_task_spec=ControllerTaskSpec(type=StepType.TEST),
        mode=Mode.TEST,
        success_criteria="What verifies the step passes.",
        depends_on=tuple(step.step_id for step in steps if step.step_id not in awaited),
        queue=project.goal.queue,
        estimate=estimate(Mode.TEST),
        checks_after=project.checks_after,
    )


def _free_name(taken: set[str]) -> str:
    name, number = REVIEW, 2
    while name in taken:
        name, number = f"{REVIEW}-{number}", number + 1
    return name
