"""Converts steps that a goal brings: a plan made elsewhere, governed exactly like the planner's plans."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from schemas.base import MODE_OF_TYPE, Mode, StepType
from schemas.envelope import FieldError
from schemas.goal import Goal, SuppliedStep
from schemas.step import ControllerTaskSpec, PlannedStep, StepEstimate, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.rules.risk import ROLLBACK, assess_declared, estimate, explain_raise
from tasks.rules.validation import MAX_ERRORS
from tasks.strategies.drafting.answers import connect_supplied
from tasks.strategies.drafting.project import Project
from tasks.strategies.drafting.recipes import Milestone, Recipes
from tasks.text.fields import guidance
from tasks.text.paths import clean
from tasks.toolchain.command_lines import render

_MILESTONES = frozenset(Milestone)
_NOTHING_KNOWN = "No tool is known for `{}`: set context.language or context.test_command."
TYPE_OF_MODE = {Mode.PATCH: StepType.PATCH, Mode.TEST: StepType.TEST, Mode.READ_ONLY: StepType.READ}


def convert(
    supplied: tuple[SuppliedStep, ...], project: Project
) -> tuple[tuple[PlannedStep, ...], tuple[FieldError, ...]]:
    """Return planned steps for supplied ones, and an error for each unknown verification.

    A step with an unknown verification gets none, so the rest of it can still be judged. Reading stops after MAX_ERRORS
    errors.
    """
    steps: list[PlannedStep] = []
    errors: list[FieldError] = []
    goal, advice = project.goal, guidance(project.goal.constraints)
    verifications = _Verifications(project)
    for index, step in enumerate(supplied):
        if len(errors) > MAX_ERRORS:
            break
        try:
            steps.append(_planned(goal, step, advice, verifications))
        except UnknownCommand as error:
            errors.append(FieldError(pointer=f"/steps/{index}/verify", code="unknown_command", message=str(error)))
            steps.append(_planned(goal, step.model_copy(update={"verify": None}), advice, verifications))
    return connect_supplied(steps), tuple(errors)


def supply(step: PlannedStep) -> dict[str, Any]:
    """Return a planned step in the form of a supplied step; `convert` restores all but the reason of its risk."""
    said = {
        "step_id": step.step_id,
        "title": step.title,
        "intent": step.intent,
        "allowed_files": list(step.allowed_files),
        "success_criteria": step.success_criteria,
        "depends_on": list(step.depends_on),
        "verify": [render((tool,)) for tool in step.verify_tools],
        "quick_checks": list(step.quick_checks),
        "type": step.controller_task_spec.type.value,
        "mode": step.mode.value,
        "risk_level": step.risk_level.value,
        "retry_limit": step.retry_limit,
        "rollback_hint": step.rollback_hint,
        "queue": step.queue,
        "estimate": step.estimate.model_dump(),
        "controller_task_spec": {"hint": step.controller_task_spec.hint} if step.controller_task_spec.hint else None,
    }
    return {name: value for name, value in said.items() if value not in (None, "", [])}


class _Verifications:
    """Reads the `verify` of supplied steps: commands, recipes of the catalogue, or the name of a milestone."""

    def __init__(self, project: Project) -> None:
        self._project = project

    @cached_property
    def _recipes(self) -> Recipes:
        return Recipes(self._project)

    def read(self, step: SuppliedStep, files: tuple[str, ...]) -> tuple[tuple[VerifyTool, ...], tuple[str, ...]]:
        """Return the tools of a step's `verify`, and the ids of tools that ignore failures from before the plan.

        A tool that the step itself names ignores no failures, unless the step's `quick_checks` list it.
        """
        parts = step.verify if isinstance(step.verify, tuple) else (step.verify,)
        tools: list[VerifyTool] = []
        named: set[str] = set()
        added: list[str] = []
        for verify in parts:
            if isinstance(verify, str) and verify in _MILESTONES and verify not in self._project.catalogue.recipes:
                recipe = self._recipes.verification(Milestone(verify), files)
                if not recipe.is_known:
                    raise UnknownCommand(_NOTHING_KNOWN.format(verify))
                there = {tool.key for tool in tools}
                tools += [tool for tool in recipe.tools if tool.key not in there]
                added += recipe.added
            else:
                found = self._project.catalogue.expand(verify, files)
                tools += found
                named.update(tool.tool for tool in found)
        marked = dict.fromkeys((*step.quick_checks, *(name for name in added if name not in named)))
        known = {tool.tool for tool in tools} if marked else set()
        return tuple(tools), tuple(name for name in marked if name in known)


def _planned(goal: Goal, step: SuppliedStep, advice: str | None, verifications: _Verifications) -> PlannedStep:
    files = tuple(map(clean, step.allowed_files))
    tools, quick_checks = verifications.read(step, files)
    if step.type:
        kind = step.type
    elif step.mode:
        kind = TYPE_OF_MODE[step.mode]
    elif step.allowed_files:
        kind = StepType.PATCH
    else:
        kind = StepType.TEST if step.verify else StepType.READ
    mode = step.mode or MODE_OF_TYPE[kind]
    risk = assess_declared(step.risk_level, files)
    undo = step.rollback_hint or (ROLLBACK if risk.why else None)  # no goal asked for one at its level
    return PlannedStep(
        step_id=step.step_id,
        title=step.title,
        intent=step.intent,
        allowed_files=files,
        verify=render(tools),
        risk_level=risk.level,
        controller_task_spec=ControllerTaskSpec(
            type=kind, target_file=files[0] if files else None, hint=step.controller_task_spec.hint or None
        ),
        mode=mode,
        success_criteria=step.success_criteria,
        depends_on=step.depends_on,
        rollback_hint=undo,
        guidance=explain_raise(risk, advice),
        verify_tools=tools,
        quick_checks=quick_checks,
        retry_limit=step.retry_limit,
        queue=step.queue or goal.queue,
        estimate=_estimated(mode, step.estimate.tokens, step.estimate.patch_cycles)
        if not step.estimate.__pydantic_extra__
        else estimate(mode).model_copy(update=step.estimate.model_dump(exclude_none=True)),
    )


@lru_cache(maxsize=256)  # the steps of a plan are expected to use the same
def _estimated(mode: Mode, tokens: int | None, patch_cycles: int | None) -> StepEstimate:
    usual = estimate(mode)
    return StepEstimate(
        tokens=usual.tokens if tokens is None else tokens,
        patch_cycles=usual.patch_cycles if patch_cycles is None else patch_cycles,
    )
