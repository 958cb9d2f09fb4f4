"""The steps that a revision puts before the next attempt of a failed one.

A preparation finds out or clears up; it has done its work when its tool ran, whatever the tool found. Its command
comes from the catalogue, by the language of the failed step; its files are among those of that step. What it found
goes to the attempt that it was for, as data in the context of that attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.base import StepState as S
from schemas.goal import GoalContext
from schemas.outcome import Outcome
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from schemas.stored import StepStatus
from tasks.base.errors import UnknownCommand
from tasks.plan.snapshot import Step
from tasks.policy.outcome_verdict import fit_evidence
from tasks.rules.risk import RISK, estimate, is_below
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, render
from tasks.toolchain.contract import operand
from tasks.toolchain.language import Language
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

Tools = Callable[[PlannedStep, Sequence[str], Catalogue], tuple[VerifyTool, ...]]


@dataclass(frozen=True, slots=True)
class Preparation:
    """One kind of preparation; `tools` answers none where it does not apply to a step."""

    suffix: str
    title: str
    intent: str
    tools: Tools
    type: StepType = StepType.TEST


def _by_language(purpose: str) -> Tools:
    def tools(step: PlannedStep, _: Sequence[str], catalogue: Catalogue) -> tuple[VerifyTool, ...]:
        language = _language(step, catalogue)
        name = f"{purpose}-{language.name}" if language else ""
        try:
            return _with_recipes(catalogue).recipe(name, step.allowed_files) if name in _RECIPES else ()
        except UnknownCommand:  # an operator's contract stands in the place of ours and does not take this
            return ()

    return tools


@lru_cache(maxsize=64)
def _with_recipes(catalogue: Catalogue) -> Catalogue:
    return catalogue.extend((), _RECIPES)


def _language(step: PlannedStep, catalogue: Catalogue) -> Language | None:
    """Take the language of the step's own verification, else that of its files."""
    known = (catalogue.contracts[tool.tool].languages for tool in step.verify_tools if tool.tool in catalogue.contracts)
    return language_of(GoalContext(), step.allowed_files, next(known, ()))


def _failing_test(step: PlannedStep, tests: Sequence[str], catalogue: Catalogue) -> tuple[VerifyTool, ...]:
    found = next((one for tool in step.verify_tools if (one := catalogue.focus(tool, tests))), None)
    return (found,) if found else ()


ISOLATE = Preparation(
    "isolate",
    "Run the failing test alone",
    "Run the failing test alone, to see whether it fails by itself.",
    _failing_test,
)
SYNTAX_CHECK = Preparation(
    "syntax-check",
    "Check the syntax",
    "Check the syntax of the files before they are changed again.",
    _by_language("syntax"),
)
TYPE_CHECK = Preparation(
    "type-check", "Check the types", "Check the types before the files are changed again.", _by_language("types")
)
AUTO_FIX = Preparation(
    "auto-fix",
    "Apply the linter's own fixes",
    "Apply the automatic fixes of the project's linter to these files. Change nothing else.",
    _by_language("fix"),
    StepType.PATCH,
)
DEPENDENCIES = Preparation(
    "dependencies", "Check the dependencies", "Check that what the files import is there.", _by_language("dependencies")
)
PREPARATIONS: Mapping[str, Preparation] = MappingProxyType(
    {each.suffix: each for each in (ISOLATE, SYNTAX_CHECK, TYPE_CHECK, AUTO_FIX, DEPENDENCIES)}
)


def prepare(
    kind: Preparation, step: PlannedStep, tests: Sequence[str], taken: Collection[str], catalogue: Catalogue
) -> PlannedStep | None:
    """Make the preparation of this kind for `step`; None where it has had it, or no tool of ours fits."""
    name = name_of(kind.suffix, step.step_id, taken)
    tools = tuple(_observing(tool, catalogue) for tool in kind.tools(step, tests, catalogue))
    if not tools or name in step.depends_on:
        return None
    patches = kind.type is StepType.PATCH
    risk = RiskLevel.LOW
    for tool in tools:
        least = catalogue.contracts[tool.tool].min_risk
        risk = least if is_below(risk, least) else risk
    files = tuple(path for path in step.allowed_files if any(operand(path) in tool.argv for tool in tools))
    files = files or step.allowed_files  # a tool that is given no files works on the whole project
    return PlannedStep(
        step_id=name,
        title=kind.title,
        intent=kind.intent,
        allowed_files=files[: RISK[risk].max_files] if patches else (),
        verify=render(tools),
        verify_tools=tools,
        risk_level=risk,
        controller_task_spec=ControllerTaskSpec(type=kind.type),
        mode=MODE_OF_TYPE[kind.type],
        success_criteria="The tool ran.",
        rollback_hint="Discard the change." if patches else None,
        retry_limit=1,
        queue=step.queue,
        estimate=estimate(MODE_OF_TYPE[kind.type]),
        inserted_by=step.step_id,
    )


def _observing(tool: VerifyTool, catalogue: Catalogue) -> VerifyTool:
    contract = catalogue.contracts[tool.tool]
    return tool.model_copy(update={"pass_codes": tuple(sorted({*contract.pass_codes, *contract.ran_codes}))})


def name_of(suffix: str, step_id: str, taken: Collection[str]) -> str:
    """Name a preparation so that no other step has its name; `taken` are the ids of the plan that look like one."""
    wanted, number = f"{step_id}-{suffix}", 2
    if len(wanted) > MAX_ID - 3:  # room for a number
        digest = hashlib.blake2b(step_id.encode(), digest_size=4).hexdigest()
        wanted = f"{step_id[: MAX_ID - 3 - len(suffix) - 10]}-{digest}-{suffix}"
    name = wanted
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def looks_prepared(step_id: str) -> bool:
    """Whether a step of a plan is called as a preparation could be."""
    return any(step_id.endswith(f"-{suffix}") or f"-{suffix}-" in step_id for suffix in PREPARATIONS)


def found(outcome: Outcome) -> dict[str, Any] | None:
    """Take what the outcome of a preparation tells; None where it tells nothing."""
    evidence, said = outcome.failure_evidence, outcome.output if isinstance(outcome.output, str) else ""
    codes = fit_evidence(", ".join(f"{each.tool} exit code {each.exit_code}" for each in outcome.verify or ()))
    text = fit_evidence((evidence and evidence.stack_trace_head) or said)
    return {"codes": codes, "text": text} if codes or text else None


def note_doubt(step: Step) -> None:
    """Keep with a step that is done that nothing proved it, beside what a preparation found.

    Workers of before read `codes` and `text` of every preparation that left something.
    """
    empty = {"codes": "", "text": ""} if step.facts["inserted_by"] else {}
    step.status.previous = {**empty, **(step.status.previous or {}), "verified": False}


def is_verified(status: StepStatus, facts: Mapping[str, Any]) -> bool | None:
    """Tell whether a step that is done was proved; None where it is not done, or nothing verifies it."""
    if status.state != S.DONE or not facts["verify_tools"]:
        return None
    return bool((status.previous or {}).get("verified", True))


def hand_on(step: Step, preparation: Step) -> None:
    """Put what `preparation` found behind what the last failure of `step` suggested."""
    known, previous = preparation.status.previous, step.status.previous
    if known and previous and (known["codes"] or known["text"]):
        told = f"Before this attempt {preparation.step_id} ran ({known['codes'] or 'no exit code'}): {known['text']}"
        suggestion = " ".join(filter(None, (previous["suggestion"], told.strip())))
        step.status.previous = {**previous, "suggestion": suggestion}
