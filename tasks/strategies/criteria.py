"""Finds the check of each acceptance criterion of a plan: a tool of a step, a reviewer, a person, or nothing.

It reads a plan's document and its steps, as planned and as ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.base import StepType
from schemas.kinds.reviewed_plan_files import GateVerdict, QrPhase
from schemas.plan import CriterionView
from tasks.base.errors import UnknownCommand
from tasks.strategies.gap_report.checks import is_run_by
from tasks.strategies.gap_report.document import ALWAYS, RESOLVED, judge_of
from tasks.strategies.gap_report.evidence import runs_tests, tool_of
from tasks.text.fields import fit
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import Role, files_of

MOST_NAMED = 5
MAX_TEXT = 300
NOT_STRICT = "pyright is run, and not strict"
PERSON = "a person"


class StepTools(NamedTuple):
    """A step with its type and the tools that verify the plan, each tool as JSON."""

    step_id: str
    type: str
    tools: Sequence[Mapping[str, Any]]


def describe_criteria(document: Any, steps: Iterable[StepTools], catalogue: Catalogue) -> tuple[CriterionView, ...]:
    """Return the acceptance criteria in a plan's document, each with the tool, reviewer or person that checks it."""
    if not isinstance(document, Mapping):
        return ()
    if "acceptance_criteria" in document and "gap" in document:
        return tuple(_of_iteration(document, tuple(steps), catalogue))
    if "validation_mode" in document:
        return tuple(_of_evolution(document, tuple(steps), catalogue))
    return tuple(_of_milestones(document)) if "gate_history" in document else ()


def describe_unchecked(criteria: Iterable[CriterionView]) -> str | None:
    """Return the criteria that nothing checks, as a sentence; None if each is checked."""
    left = [fit(each.text, MAX_TEXT) for each in criteria if each.checked_by is None]
    if not left:
        return None
    more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
    return f"Nothing checks: {'; '.join(left[:MOST_NAMED])}{more}."


def _of_iteration(
    document: Mapping[str, Any], steps: Sequence[StepTools], catalogue: Catalogue
) -> Iterator[CriterionView]:
    gap = document["gap"]
    is_quality = str(gap["category"]).casefold() == "quality"
    reporter = tool_of(gap["description"]) if is_quality else ""
    targets = [path for action in document["actions"] for path in action["target_files"]]
    for text in document["acceptance_criteria"]:
        judge = judge_of(text)
        named = judge or (reporter if text.startswith(RESOLVED) else "")
        has_tests = judge is None and not reporter and text.startswith(RESOLVED) and bool(files_of(targets, Role.TEST))
        found = _tool_of_step(steps, named, catalogue, tests=has_tests or runs_tests(named))
        if found and text == ALWAYS[1] and not found.tool.get("strict"):
            yield CriterionView(text=f"{text} ({NOT_STRICT})", checked_by=None)
        else:
            by = found.told if found else _reviewer(steps) if judge is None else None
            yield CriterionView(text=text, checked_by=by)


def _of_evolution(
    document: Mapping[str, Any], steps: Sequence[StepTools], catalogue: Catalogue
) -> Iterator[CriterionView]:
    """Yield the criteria of an evolution goal and of its plan; a criterion that is a command is checked by a step."""
    plan = document.get("plan") or {}
    for text in dict.fromkeys((*document.get("acceptance_criteria", ()), *plan.get("validation", ()))):
        yield CriterionView(text=text, checked_by=_runner_of(text, steps, catalogue))


def _runner_of(command: str, steps: Sequence[StepTools], catalogue: Catalogue) -> str | None:
    """Return the id of the last step that runs `command`, with the command; None if no step runs it."""
    try:
        wanted = _words_of(catalogue.match(command).argv)
    except UnknownCommand:
        return None
    running = (step for step in reversed(steps) for tool in step.tools if _words_of(tool["argv"]) == wanted)
    step = next(running, None)
    return fit(f"{step.step_id}: {' '.join(wanted)}", MAX_TEXT) if step else None


def _words_of(argv: Iterable[str]) -> list[str]:
    """Return the words of a command without the `--` in front of its paths."""
    return [word for word in argv if word != "--"]


class _Found(NamedTuple):
    step_id: str
    tool: Mapping[str, Any]

    @property
    def told(self) -> str:
        return fit(f"{self.step_id}: {' '.join(self.tool['argv'])}", MAX_TEXT)


def _tool_of_step(steps: Sequence[StepTools], named: str, catalogue: Catalogue, *, tests: bool) -> _Found | None:
    """Return the last step that runs the `named` tool, with the tool; with `tests` any test tool counts."""
    for step in reversed(steps):
        for tool in step.tools:
            contract = catalogue.contracts.get(tool["tool"])
            is_test = tests and contract is not None and contract.category is ToolCategory.TEST
            if is_test or is_run_by(tool["tool"], tool["argv"], catalogue, named):
                return _Found(step.step_id, tool)
    return None


def _reviewer(steps: Sequence[StepTools]) -> str | None:
    return next((step.step_id for step in reversed(steps) if step.type == StepType.REVIEW), None)


def _of_milestones(document: Mapping[str, Any]) -> Iterator[CriterionView]:
    """Yield the acceptance criteria of all milestones; none before the gate of their code has a verdict."""
    spoken = [each for each in document["gate_history"] if each["phase"] == QrPhase.IMPL_CODE]
    if not spoken:
        return
    verdict, is_open = spoken[-1]["verdict"], spoken[-1].get("unverified")
    by = {GateVerdict.PASS: None if is_open else f"{QrPhase.IMPL_CODE}-qr", GateVerdict.ACCEPTED: PERSON}.get(verdict)
    for milestone in document["plan"]["milestones"]:
        for line in milestone["acceptance_criteria"]:
            yield CriterionView(text=f"{milestone['id']}: {line}", checked_by=by)
