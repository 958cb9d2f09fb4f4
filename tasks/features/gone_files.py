"""Checks of files that were not found: a change removed the file, or would have created it but was discarded.

A controller that does not know `deleted_files` reports removed files as touched, and also the old name of a moved file.
A step before the next attempt runs on a tree without the files of the last attempt. A missing file is no failure: the
check runs again for the other files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from schemas.base import Mode
from schemas.base import StepState as S
from schemas.outcome import Outcome
from schemas.step import PlannedStep, VerifyTool
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import JUDGES, Feature, Judgement, always
from tasks.policy.pre_steps import CHECK_CHANGED, is_quick_look
from tasks.toolchain.command_lines import render

# Messages of tools about a missing file that they were given; an included file does not count.
_MISSING = (
    r"(?:no such file or directory|can't (?:open|read) file|could not open(?: input)? file|no files matching"
    r"(?: the pattern)?)[: ]+['\"]?{path}(?![\w./-])",
    r"(?<![\w./-]){path}['\"]?:(?:\d+:\d+: E902| error: cannot read file:)? no such file or directory(?! *:)",
    r"\bE902 no such file[^\n]*\n\s*--> {path}:",
    r"\bfile '{path}' not found",
)


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Run a check again without the files that were not found; if all are gone there is nothing to check."""
    step, facts = seen.step, seen.step.facts
    if (
        seen.failure is None
        or seen.handed_back
        or facts["mode"] != Mode.TEST
        or not (step.step_id.startswith(CHECK_CHANGED) or is_quick_look(facts))
    ):
        return False
    was = PlannedStep.model_validate(facts)
    gone = _unfound({word for tool in was.verify_tools for word in tool.argv[1:]}, seen.outcome)
    if not gone:
        return False
    tools = tuple(tool for each in was.verify_tools if (tool := _without(each, gone)))
    unit.rewrite(step, was.model_copy(update={"verify_tools": tools, "verify": render(tools)}))
    if not tools:
        seen.failure, seen.outcome = None, seen.outcome.model_copy(update={"success": True})
        return False
    unit.move_step(step, S.ACTIVE.value)
    data = {"step_id": step.step_id, "attempt": step.status.attempt, "files": sorted(gone)}
    unit.emit("step.gone_files", data, "its check did not find them")
    unit.make_ready(step)
    return True


def _unfound(words: Collection[str], outcome: Outcome) -> frozenset[str]:
    """Return the files in the words of a command that its output reports as missing."""
    evidence = outcome.failure_evidence
    text = f"{evidence.stack_trace_head if evidence else ''}\n{outcome.error_message}"
    files = (word for word in words if "." in word or "/" in word)
    return frozenset(path for path in files if any(_says(form, path, text) for form in _MISSING))


def _says(form: str, path: str, text: str) -> bool:
    return re.search(form.replace("{path}", re.escape(path)), text, re.IGNORECASE) is not None


def _without(tool: VerifyTool, gone: Collection[str]) -> VerifyTool | None:
    """Remove files from a command; None if it would then check no file, or the whole project."""
    argv = tuple(word for word in tool.argv if word not in gone)
    if argv == tool.argv:
        return tool
    return tool.model_copy(update={"argv": argv}) if _names_files(argv) else None


def _names_files(argv: Sequence[str]) -> bool:
    if "--" in argv:
        return argv[-1] != "--"
    return any("." in word or "/" in word for word in argv[1:] if not word.startswith("-"))


FEATURE = Feature("gone_files", (JUDGES.row(judge),), is_idle=always)
