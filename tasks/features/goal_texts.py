"""Texts that a goal brings: its failure log and its documents, for steps that analyse or locate.

Steps that patch get the log alone.

These are texts from outside, and no decision depends on them. They are sanitized and truncated once, at the creation of
the plan. One note stores them for all steps, and only the start of a step that gets them reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from schemas.base import Mode, StepType
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import ADDED, AT_BIRTH, DRAFTED, SPEC_FIELDS, Feature, always
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Draft
from tasks.text.fields import fit, last_lines, whole_lines
from tasks.text.paths import clean, fault
from tasks.toolchain.files import name_of

MAX_TEXTS = 16_384  # bytes of the log, the documents and their paths, in all
LEAST_SHARE = 4096  # bytes that a document may have, however many there are
LEAST_ROOM = 256  # bytes; a shorter part of a document is of no use
MAX_DOCUMENTS = 1000  # that are looked at
SHOWN_TESTS = 20
READ = 4  # how many times the kept size is read of a text, since attacks are removed from it

NOTE = "goal's texts"
ANALYSING = frozenset({StepType.READ, StepType.EXPLORE})
LOG = "failure_log"
MOST_PATCHES = 50  # of a plan that are given the log each
MAX_ERRORS = 2048  # bytes of the error lines before the end of a log
_ERROR = re.compile(
    r"^(?:E {2,}\S|\S*(?:Error|Exception)\b|(?:error|fatal|panic|FAILED|FAIL)\b|[^\s:]+:\d+:(?:\d+:)? error\b)"
)


def are_in(goal: Goal) -> bool:
    """Return whether a goal brings any text."""
    return bool((goal.context.failure_log or "").strip() or _documents(goal))


def assign_first(goal: Goal, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Decide which of a plan's first steps get the texts."""
    return assign(steps, available=are_in(goal), has_log=bool((goal.context.failure_log or "").strip()))


def assign(steps: Sequence[PlannedStep], *, available: bool, has_log: bool) -> tuple[PlannedStep, ...]:
    """Decide which of `steps` get the texts: those that analyse or locate, and those that their strategy marks.

    Steps that patch get the log, if there are at most MOST_PATCHES of them.
    """
    few = has_log and sum(map(_patches, steps)) <= MOST_PATCHES

    def settled(step: PlannedStep) -> PlannedStep:
        given = available and (_wants(step) or (few and _patches(step)))
        return step if step.goal_texts is given else step.model_copy(update={"goal_texts": given})

    return tuple(map(settled, steps))


def keep(unit: UnitOfWork, _: PlanSeed, goal: Goal, draft: Draft) -> None:
    """Store the texts of `goal`, if a step gets them, or if later steps may.

    The note is stored even if sanitizing leaves nothing of a text, such as an invisible log.
    """
    is_given = any(step.goal_texts for step in draft.steps)
    if (draft.state is not None or is_given) and ((texts := texts_of(goal)) or is_given):
        unit.keep_note(NOTE, texts)


def assign_added(unit: UnitOfWork, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Decide which added steps get the texts. Raises NeedsSteps if the snapshot lacks the note."""
    if not any(_wants(step) or _patches(step) for step in steps):
        return steps
    found = unit.note(NOTE)
    return assign(steps, available=bool(found), has_log=bool(found and LOG in found))


def given_to(unit: UnitOfWork, step: Step) -> Mapping[str, Any] | None:
    """Return the texts as context fields of a step that starts. Raises NeedsSteps if the snapshot lacks the note."""
    found: dict[str, Any] | None = unit.note(NOTE)
    if not found or step.facts["mode"] != Mode.PATCH:
        return found
    return {LOG: found[LOG]} if LOG in found else None


def texts_of(goal: Goal) -> dict[str, Any]:
    """Sanitize the failure log and the documents of `goal`, and truncate them at whole lines to MAX_TEXTS bytes in all.

    The end of the log is kept, in at least half of the capacity. Documents that the goal or its log names come first,
    then those next to and above the files that may change. Documents beyond the capacity are left out.
    """
    documents = [(path, text) for path, text in _documents(goal).items() if fault(path) is None]
    found: dict[str, Any] = {}
    room = MAX_TEXTS
    asked = sum(len(path) + len(text) for path, text in documents)
    if end := _end_of(goal.context.failure_log or "", max(room // 2, room - asked)):
        found[LOG] = end
        room -= len(end.encode())
    kept: dict[str, str] = {}
    relevance = _relevance(goal, end)
    for number, (path, text) in enumerate(sorted(documents, key=lambda each: relevance(each[0]))):
        size = min(room, max(LEAST_SHARE, room // (len(documents) - number))) - len(path.encode())
        if size >= min(LEAST_ROOM, len(text)) and (opening := fit(text[: READ * size], size, whole_lines)).strip():
            kept[path] = opening
            room -= len(path.encode()) + len(opening.encode())
    return found | ({"documents": kept} if kept else {})


def _wants(step: PlannedStep) -> bool:
    return step.goal_texts or step.controller_task_spec.type in ANALYSING


def _patches(step: PlannedStep) -> bool:
    return step.mode is Mode.PATCH and not step.inserted_by


def _documents(goal: Goal) -> dict[str, str]:
    """Return the documents of the goal and of its kind's input, by their paths."""
    project = goal.gap_report.project.documents if goal.gap_report else {}
    both = (goal.context.documents, project)
    return dict(islice(((clean(path), text) for each in both for path, text in each.items()), MAX_DOCUMENTS))


def _end_of(log: str, size: int) -> str:
    """Return the end of a log in at most `size` bytes; error lines from before this end come first."""
    read = log[-READ * size :]
    whole = read if len(read) == len(log) else read.partition("\n")[2] or read
    if not whole.strip():
        return ""
    end = fit(whole, size, last_lines)
    if len(log.encode()) <= size or not (errors := _errors(log, end)):
        return end
    head = fit(errors, MAX_ERRORS, whole_lines)
    return f"{head}\n{fit(whole, size - len(head.encode()) - 1, last_lines)}"


def _errors(log: str, end: str) -> str:
    """Return the error lines of a log that are not in its end, each once."""
    lines = dict.fromkeys(line for line in log.splitlines() if len(line) < MAX_ERRORS and _ERROR.match(line))
    return "\n".join(line for line in lines if line not in end)


def _relevance(goal: Goal, log: str) -> Callable[[str], int]:
    """Return a function that ranks documents: 0 if named, 1 if next to or above a file that may change, else 2."""
    told = "\n".join((goal.goal, *goal.constraints, *goal.context.failing_tests[:SHOWN_TESTS], log))
    folders = {path[:at] for path in goal.allowed_files for at, char in enumerate(path) if char == "/"}

    def rank(path: str) -> int:
        if name_of(path) in told:
            return 0
        return 1 if path.rpartition("/")[0] in folders else 2

    return rank


FEATURE = Feature(
    "goal_texts",
    (
        DRAFTED.row(assign_first),
        AT_BIRTH.row(keep),
        SPEC_FIELDS.row(given_to, fact="goal_texts"),
        ADDED.row(assign_added),
    ),
    is_idle=always,
    end_fields=("goal_texts",),
    start_fields=("goal_texts",),
)
