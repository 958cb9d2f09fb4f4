"""The step that checks what a change turned out to touch, where nobody knew that before the attempt.

It runs the quick checks that the project configures on the files of the outcome, by commands of the catalogue alone,
and stands between the change and what waited for it. What it finds goes to a mend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.goal import GoalContext
from schemas.outcome import Outcome
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.insertion import insert_behind, waiting_for
from tasks.policy.pipeline import AFTER_END, Feature, Judgement, always
from tasks.policy.pre_steps import CHECK_CHANGED
from tasks.policy.revision import has_room
from tasks.policy.sources import keep_changed
from tasks.rules.permission import SYNTAX, is_permitted
from tasks.rules.risk import estimate
from tasks.text.folders import folder_of_check, of_folder
from tasks.toolchain.catalogue import Catalogue, catalogue_of, in_folder, once, render
from tasks.toolchain.contract import Part
from tasks.toolchain.files import name_of
from tasks.toolchain.languages import LANGUAGES, language_of

MAX_FILES = 50  # that are checked
RULE = "check_changed"
_PARTS: Mapping[str, tuple[Part, ...]] = MappingProxyType(
    {check.name: (check.part,) for each in LANGUAGES.values() for choice in each.quick_checks for check in choice}
)


def insert_check(unit: UnitOfWork, seen: Judgement) -> None:
    """Put a check of the changed files between a step that is done and those that wait for it.

    Raises NeedsSteps where the snapshot lacks one of these.
    """
    step, plan = seen.step, unit.plan
    wanted = step.facts["checks_after"]
    if not wanted or plan.state in PLAN_ENDS:
        return
    files = _changed(step.facts, seen.outcome)
    keep_changed(unit, step.step_id, files)
    tools, added = _tools(wanted, _left(files, seen.outcome)[:MAX_FILES], catalogue_of(plan.head.tools))
    if not tools or not has_room(plan) or (waiting := waiting_for(unit, step)) is None:
        return
    check = _make(step, tools, added, _free_name(plan.structure.taken))
    insert_behind(unit, step, check, waiting, RULE, f"the files are checked that {step.step_id} changed")


def _changed(facts: Mapping[str, Any], outcome: Outcome) -> tuple[str, ...]:
    files = dict.fromkeys((*outcome.touched_files, *outcome.created_files))
    return tuple(path for path in files if is_permitted(facts, path))


def _left(files: Sequence[str], outcome: Outcome) -> tuple[str, ...]:
    """Leave out the files that the change removed: nothing is there to be checked."""
    return tuple(path for path in files if path not in outcome.deleted_files)


def _free_name(taken: Sequence[str]) -> str:
    name, number = CHECK_CHANGED, 2
    while name in taken:
        name, number = f"{CHECK_CHANGED}-{number}", number + 1
    return name


def _tools(
    wanted: Mapping[str, bool], files: Sequence[str], catalogue: Catalogue
) -> tuple[tuple[VerifyTool, ...], tuple[str, ...]]:
    """Aim the checks at the files, and answer the ids of those for which nobody asked."""
    tools: list[VerifyTool] = []
    added: list[str] = []
    folders = {folder_of_check(name) for name in wanted}
    for place, is_asked in wanted.items():
        folder, name = folder_of_check(place), name_of(place)
        found = [in_folder(tool, folder) for tool in _aimed(name, of_folder(files, folder, folders), catalogue)]
        tools += found
        added += [] if is_asked or name == SYNTAX else [tool.tool for tool in found]
    return once(tools), tuple(dict.fromkeys(added))


def _aimed(name: str, files: Sequence[str], catalogue: Catalogue) -> Iterable[VerifyTool]:
    language = language_of(GoalContext(), files)
    try:
        if name != SYNTAX:
            return [tool for part in _PARTS.get(name, ()) for tool in catalogue.aim_part(part, files)]
        return catalogue.aimed(language.quick, files) if language else ()
    except UnknownCommand:  # the name of a file, or an operator's contract in the place of ours
        return ()


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
