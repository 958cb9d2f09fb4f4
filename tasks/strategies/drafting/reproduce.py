"""Makes the first step of a plan, which reproduces the failure at the goal's base, before an agent is paid.

The goal's failing tests run three times, because a test that fails only sometimes may pass once. Checks that a template
added for existing files run next.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.base import FailureCategory as C
from schemas.base import Mode, StepType
from schemas.goal import Goal
from schemas.step import AtBase, ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import estimate
from tasks.rules.validation import max_steps
from tasks.strategies.drafting.focus import file_of_test
from tasks.strategies.drafting.project import Check, Project
from tasks.toolchain.classify import classify
from tasks.toolchain.command_lines import render
from tasks.toolchain.files import Role, role_of

REPRODUCE = "reproduce"
TIMES = 3
MAX_CHECKS = 20
ASKED = (True, "halt", "warn")


def reproduce_first(project: Project, steps: Sequence[PlannedStep]) -> tuple[PlannedStep, ...]:
    """Return `steps` after a step that runs the failing tests or checks at the base.

    Without anything to run, or without capacity for another step, `steps` stay unchanged.
    """
    goal = project.goal
    step = _make(project, steps) if _is_wanted(goal, steps) else None
    if step is None or len(steps) >= max_steps(goal):
        return tuple(steps)
    roots = {each.step_id for each in steps if not each.depends_on}
    behind = {"depends_on": (step.step_id,)}
    return step, *(each.model_copy(update=behind) if each.step_id in roots else each for each in steps)


def _is_wanted(goal: Goal, steps: Sequence[PlannedStep]) -> bool:
    if not goal.context.base_sha or not any(step.mode is Mode.PATCH for step in steps):
        return False
    return goal.reproduce in ASKED or (goal.reproduce is None and goal.steps is None)


def _make(project: Project, steps: Sequence[PlannedStep]) -> PlannedStep | None:
    goal, catalogue = project.goal, project.catalogue
    tests = project.check(Check.FOCUSED, ())
    checks = _checks(project, steps)
    if not (tests or checks):
        return None
    tools = tuple(map(catalogue.as_ran, (*tests * TIMES, *checks)))
    words = [AtBase.WARN if goal.reproduce == "warn" else AtBase.HALT]
    words += [AtBase.UNLOADED] if _is_about_loading(goal) else []
    return PlannedStep(
        step_id=_free_name({step.step_id for step in steps}),
        title="Run it before the plan",
        intent="Run the failing tests and the quick checks at the commit that the plan begins with.",
        verify=render(tools),
        verify_tools=tools,
        quick_checks=tuple(dict.fromkeys(tool.tool for tool in checks)),
        controller_task_spec=ControllerTaskSpec(type=StepType.TEST),
        mode=Mode.TEST,
        success_criteria="The tools ran.",
        retry_limit=1,
        queue=goal.queue,
        estimate=estimate(Mode.TEST),
        at_base=tuple(words),
    )


def _checks(project: Project, steps: Sequence[PlannedStep]) -> tuple[VerifyTool, ...]:
    """Return the checks that a template added to steps whose files all exist; for a missing file a check fails."""
    there = frozenset(project.goal.context.files)
    found = {
        tool.argv: tool
        for step in steps
        if step.mode is Mode.PATCH and step.allowed_files and there.issuperset(step.allowed_files)
        for tool in step.verify_tools
        if tool.tool in step.quick_checks
    }
    return tuple(found.values())[:MAX_CHECKS]


def _is_about_loading(goal: Goal) -> bool:
    """Return whether the goal is about tests that do not load, so that a failure to load them reproduces it."""
    category = classify(goal.context.failure_log or "").category
    if category in (C.IMPORT_ERROR, C.COMPILATION_ERROR):
        return True
    return any(role_of(test) is Role.TEST and file_of_test(test) == test for test in goal.context.failing_tests)


def _free_name(taken: set[str]) -> str:
    name, number = REPRODUCE, 2
    while name in taken:
        name, number = f"{REPRODUCE}-{number}", number + 1
    return name
