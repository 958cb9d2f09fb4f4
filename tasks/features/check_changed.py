"""The step that checks the files that a change touched, if they were not known before the attempt.

It runs the quick checks that the project configures, on the files of the outcome, with commands of the catalogue alone.
It is between the change and the steps that waited for it. A repair step handles its findings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import MODE_OF_TYPE, Mode, RiskLevel, StepType
from schemas.outcome import Outcome
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.insertion import insert_behind, waiting_for
from tasks.policy.pipeline import AFTER_END, Feature, Judgement, always
from tasks.policy.pre_steps import CHECK_CHANGED
from tasks.policy.quick_checks import checks_of_changed
from tasks.policy.revision import has_room
from tasks.policy.sources import keep_changed
from tasks.rules.permission import is_permitted
from tasks.rules.risk import estimate
from tasks.toolchain.catalogue import catalogue_of
from tasks.toolchain.command_lines import render

MAX_FILES = 50  # that are checked
RULE = "check_changed"


def insert_check(unit: UnitOfWork, seen: Judgement) -> None:
    """Insert a check of the changed files between a done step and the steps that wait for it.

    Raises NeedsSteps if the snapshot lacks a step that waits.
    """
    step, plan = seen.step, unit.plan
    wanted = step.facts["checks_after"]
    if not wanted or step.facts["mode"] != Mode.PATCH or plan.state in PLAN_ENDS:
        return
    files = _changed(step.facts, seen.outcome)
    keep_changed(unit, step.step_id, files)
    tools, added = checks_of_changed(wanted, _left(files, seen.outcome)[:MAX_FILES], catalogue_of(plan.head.tools))
    if not tools or not has_room(plan) or (waiting := waiting_for(unit, step)) is None:
        return
    check = _make(step, tools, added, _free_name(plan.structure.taken))
    insert_behind(unit, step, check, waiting, RULE, f"the files are checked that {step.step_id} changed")


def _changed(facts: Mapping[str, Any], outcome: Outcome) -> tuple[str, ...]:
    files = dict.fromkeys((*outcome.touched_files, *outcome.created_files))
    return tuple(path for path in files if is_permitted(facts, path))


def _left(files: Sequence[str], outcome: Outcome) -> tuple[str, ...]:
    """Leave out the files that the change removed."""
    return tuple(path for path in files if path not in outcome.deleted_files)


def _free_name(taken: Sequence[str]) -> str:
    name, number = CHECK_CHANGED, 2
    while name in taken:
        name, number = f"{CHECK_CHANGED}-{number}", number + 1
    return name


def _make(step: Step, tools: tuple[VerifyTool, ...], added: tuple[str, ...], name: str) -> PlannedStep:
    mode = MODE_OF_TYPE[StepType.TEST]
    return PlannedStep(
        step_id=name,
        title="Check the changed files",
        intent=f"Run the quick checks on the files that {step.step_id} changed.",
        verify=render(tools),
        verify_tools=tools,
        quick_checks=added,
        risk_level=RiskLevel(step.facts["risk_level"]),
        controller_task_spec=ControllerTaskSpec(type=StepType.TEST),
        mode=mode,
        success_criteria="What verifies the step passes.",
        depends_on=(step.step_id,),
        queue=step.facts["queue"],
        estimate=estimate(mode),
    )


FEATURE = Feature(
    "check_changed",
    (AFTER_END.row(insert_check),),
    is_idle=always,
    end_fields=("checks_after",),
    start_fields=("checks_after",),
)
