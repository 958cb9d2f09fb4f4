"""The steps that a revision inserts before the next attempt of a failed one.

A pre-step examines or tidies files; it is done when its tool ran, with any result. Its command comes from the
catalogue, by the language of the failed step, and its files are among those of that step. Its result goes to the next
attempt, as data in the context of that attempt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from schemas.base import MODE_OF_TYPE, Mode, RiskLevel, StepType
from schemas.goal import GoalContext
from schemas.outcome import Outcome
from schemas.step import ROOT, ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.plan.snapshot import Step
from tasks.policy.outcome_verdict import fit_evidence
from tasks.rules.risk import RISK, estimate, is_below
from tasks.text.folders import of_folder
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, in_folder, looks_at
from tasks.toolchain.command_lines import render
from tasks.toolchain.languages import LANGUAGES, language_of

MAX_ID = 64
# By purpose and language. A syntax check is the quick one of the language.
_RECIPES = MappingProxyType(
    {
        f"{purpose}-{language.name}": parts
        for language in LANGUAGES.values()
        for purpose, parts in (
            ("syntax", CATALOGUE.recipes[language.quick]),
            ("types", language.types),
            ("fix", language.fix),
            ("dependencies", language.dependencies),
        )
        if parts
    }
)


@dataclass(frozen=True, slots=True)
class PreStep:
    """One kind of pre-step. Its purpose selects a recipe by language; without a purpose it runs the failing test."""

    suffix: str
    title: str
    intent: str
    purpose: str = ""
    type: StepType = StepType.TEST


ISOLATE = PreStep(
    "isolate",
    "Run the failing test alone",
    "Run the failing test alone, to see whether it fails by itself.",
)
SYNTAX_CHECK = PreStep(
    "syntax-check",
    "Check the syntax",
    "Check the syntax of the files before they are changed again.",
    "syntax",
)
TYPE_CHECK = PreStep(
    "type-check",
    "Check the types",
    "Check the types before the files are changed again.",
    "types",
)
AUTO_FIX = PreStep(
    "auto-fix",
    "Apply the linter's own fixes",
    "Apply the automatic fixes of the project's linter to these files. Change nothing else.",
    "fix",
    StepType.PATCH,
)
DEPENDENCIES = PreStep(
    "dependencies",
    "Check the dependencies",
    "Check that the imports of the files exist.",
    "dependencies",
)
BASELINE = "baseline"  # the suffix of a step that runs a verification before the plan, see `baseline`
PIECE = "piece"  # the suffix of a step that makes a part of another one's change, see `split_changes`
RISKY = "risky"  # the suffix of a step that changes the riskier files of another one, see `riskier_files`
MEND = "mend"  # the suffix of a step that changes code again, see `mending`
MOST_MENDED = 2  # repairs that use up no retry of their verification
_MEND = re.compile(rf".*-{MEND}(?:-\d+)?")
HOLDOUT = "holdout"  # the suffix of the step that held-out tests judge, see `judging`
CHECK_CHANGED = "check-changed"  # the name of the step that checks the files of a change, see `check_changed`
DELIVER = "deliver"  # the name of the step that ends a plan, see `delivery`
LAND = "land"  # the name of the step before it, see `delivery.landing`; also a capability of controllers
BRING_UP_TO_DATE = "bring-up-to-date"  # the name of the step that patches conflicts of a landing
# Messages of launchers about a missing program, and of Python about a missing module.
_COULD_NOT_RUN = re.compile(
    r"^\S*python[\d.]*(?:\.exe)?: No module named |\bcommand not found\b|^\S+: not found$|^exec: ", re.MULTILINE
)
_BY_NAME = (DELIVER, LAND, BRING_UP_TO_DATE, CHECK_CHANGED)
PRE_STEPS: Mapping[str, PreStep] = MappingProxyType(
    {each.suffix: each for each in (ISOLATE, SYNTAX_CHECK, TYPE_CHECK, AUTO_FIX, DEPENDENCIES)}
)


def make_pre_step(
    kind: PreStep, step: PlannedStep, tests: Sequence[str], taken: Collection[str], catalogue: Catalogue
) -> PlannedStep | None:
    """Return the pre-step of this kind for `step`; None if the step has had it, or if no tool of the catalogue fits."""
    name = name_of(kind.suffix, step.step_id, taken)
    found = tools_by_language(kind.purpose, step, catalogue) if kind.purpose else _failing_test(step, tests, catalogue)
    if not found or name in step.depends_on:
        return None
    tools, risk = [], RiskLevel.LOW
    for tool in found:
        contract = catalogue.contracts[tool.tool]
        tools.append(catalogue.as_ran(tool))
        risk = contract.min_risk if is_below(risk, contract.min_risk) else risk
    files = tuple(path for path in step.allowed_files if any(looks_at(tool, path) for tool in tools))
    files = files or step.allowed_files  # a tool that is given no files works on the whole project
    patches = kind.type is StepType.PATCH
    return PlannedStep(
        step_id=name,
        title=kind.title,
        intent=kind.intent,
        allowed_files=files[: RISK[risk].max_files] if patches else (),
        verify=render(tools),
        verify_tools=tuple(tools),
        risk_level=risk,
        controller_task_spec=ControllerTaskSpec(type=kind.type),
        mode=MODE_OF_TYPE[kind.type],
        success_criteria="The tool ran.",
        rollback_hint="Discard the change." if patches else None,
        retry_limit=1,
        queue=step.queue,
        estimate=estimate(MODE_OF_TYPE[kind.type]),
        inserted_by=step.step_id,
        allow_empty=patches,
    )


def make_baseline(
    step: PlannedStep, tools: Sequence[VerifyTool], taken: Collection[str], catalogue: Catalogue
) -> PlannedStep:
    """Return the step that runs `tools` of `step` at the commit that the plan began with; it passes if they ran."""
    ran = tuple(map(catalogue.as_ran, tools))
    return PlannedStep(
        step_id=name_of(BASELINE, step.step_id, {*taken, *step.depends_on}),
        title="Run the same before the plan",
        intent="Run the verification at the commit that the plan began with, to find the tests that failed before it.",
        verify=render(ran),
        verify_tools=ran,
        risk_level=step.risk_level,
        controller_task_spec=ControllerTaskSpec(type=StepType.TEST),
        mode=Mode.TEST,
        success_criteria="The tools ran.",
        retry_limit=1,
        queue=step.queue,
        estimate=estimate(Mode.TEST),
        inserted_by=step.step_id,
    )


def tools_by_language(purpose: str, step: PlannedStep, catalogue: Catalogue) -> tuple[VerifyTool, ...]:
    """Return the tools with this purpose, for the language of the step's verification, else of its files.

    If the verification runs in several folders, the files of each folder are checked in that folder.
    """
    folders = folders_of(step.verify_tools)
    found: list[VerifyTool] = []
    for folder in folders:
        tools = (tool for tool in step.verify_tools if tool.cwd == folder and tool.tool in catalogue.contracts)
        tested = next((catalogue.contracts[tool.tool].languages for tool in tools), ())
        files = of_folder(step.allowed_files, folder, folders)
        if files or len(folders) == 1:
            found += (in_folder(tool, folder) for tool in _of_language(purpose, files, tested, catalogue))
    return tuple(found)


def folders_of(tools: Iterable[VerifyTool]) -> tuple[str, ...]:
    """Return the folders that tools run in; the root if there is no tool."""
    return tuple(dict.fromkeys(tool.cwd for tool in tools)) or (ROOT,)


def _of_language(
    purpose: str, files: Sequence[str], tested: Sequence[str], catalogue: Catalogue
) -> tuple[VerifyTool, ...]:
    language = language_of(GoalContext(), files, tested)
    name = f"{purpose}-{language.name}" if language else ""
    try:
        return _with_recipes(catalogue).recipe(name, files) if name in _RECIPES else ()
    except UnknownCommand:  # an operator's contract replaces the built-in one and does not take this
        return ()


@lru_cache(maxsize=64)
def _with_recipes(catalogue: Catalogue) -> Catalogue:
    return catalogue.extend((), _RECIPES)


def _failing_test(step: PlannedStep, tests: Sequence[str], catalogue: Catalogue) -> tuple[VerifyTool, ...]:
    found = next((one for tool in step.verify_tools if (one := catalogue.focus(tool, tests))), None)
    return (found,) if found else ()


def name_of(suffix: str, step_id: str, taken: Collection[str]) -> str:
    """Return a unique name of a pre-step; `taken` are the ids of the plan that look like one."""
    wanted, number = f"{step_id}-{suffix}", 2
    if len(wanted) > MAX_ID - 3:  # room for a number
        digest = hashlib.blake2b(step_id.encode(), digest_size=4).hexdigest()
        wanted = f"{step_id[: MAX_ID - 3 - len(suffix) - 10]}-{digest}-{suffix}"
    name = wanted
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


_BASELINE = re.compile(rf".*-{BASELINE}(?:-\d+)?")
_QUICK_LOOK = re.compile(rf".*-(?:{SYNTAX_CHECK.suffix}|{TYPE_CHECK.suffix}|{DEPENDENCIES.suffix})(?:-\d+)?")


def is_baseline(facts: Mapping[str, Any]) -> bool:
    """Return whether this step was inserted to run another step's verification at the plan's base."""
    return bool(facts["inserted_by"]) and names_baseline(facts["step_id"])


def names_baseline(step_id: str) -> bool:
    """Return whether an inserted step of this id runs a verification at the plan's base."""
    return _BASELINE.fullmatch(step_id) is not None


def runs_at_base(facts: Mapping[str, Any]) -> bool:
    """Return whether this step runs a verification at the commit that the plan began with."""
    return bool(facts["at_base"]) or is_baseline(facts)


def is_quick_look(facts: Mapping[str, Any]) -> bool:
    """Return whether this step was inserted to check syntax, types or imports of files before the next change."""
    return bool(facts["inserted_by"]) and _QUICK_LOOK.fullmatch(facts["step_id"]) is not None


def is_mend(facts: Mapping[str, Any]) -> bool:
    """Return whether this step is a repair after a failed verification."""
    return bool(facts["inserted_by"]) and names_mend(facts["step_id"])


def names_mend(step_id: str) -> bool:
    """Return whether an inserted step of this id is a repair."""
    return _MEND.fullmatch(step_id) is not None


def retries_for_mends(facts: Mapping[str, Any]) -> int:
    """Return how many more retries a verification has: one for each repair, because it then verifies other code."""
    mended = (name.startswith(f"{facts['step_id']}-{MEND}") for name in facts["depends_on"])
    return min(sum(mended), MOST_MENDED) if facts["mode"] == Mode.TEST else 0


def looks_inserted(step_id: str) -> bool:
    """Return whether a step's id could be that of a pre-step, a delivery or a check of changes."""
    if any(step_id == name or step_id.startswith(f"{name}-") for name in _BY_NAME):
        return True
    return any(
        step_id.endswith(f"-{suffix}") or f"-{suffix}-" in step_id
        for suffix in (*PRE_STEPS, BASELINE, MEND, PIECE, RISKY, HOLDOUT)
    )


def result_of(outcome: Outcome) -> dict[str, Any] | None:
    """Return the exit codes and the text of a pre-step's outcome as its result; None if the outcome has neither."""
    evidence, said = outcome.failure_evidence, outcome.output if isinstance(outcome.output, str) else ""
    codes = fit_evidence(", ".join(f"{each.tool} exit code {each.exit_code}" for each in outcome.verify or ()))
    text = fit_evidence((evidence and evidence.stack_trace_head) or said)
    return {"codes": codes, "text": text} if codes or text else None


def hand_on(step: Step, pre_step: Step) -> None:
    """Append the result of `pre_step` to the suggestion of the last failure of `step`, unless it could not run."""
    result, previous = pre_step.status.previous, step.status.previous
    if result and previous and (result["codes"] or result["text"]) and not _COULD_NOT_RUN.search(result["text"]):
        line = f"Before this attempt {pre_step.step_id} ran ({result['codes'] or 'no exit code'}): {result['text']}"
        suggestion = " ".join(filter(None, (previous["suggestion"], line.strip())))
        step.status.previous = {**previous, "suggestion": suggestion}
