"""Gives a step more files: its next attempt may also change files that the goal allows at the step's risk.

A plan is never widened: a step only gets files that its goal allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import StepState
from schemas.step import MAX_LITERAL, MAX_PATTERNS, PlannedStep
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.rules.permission import Allowlist, exceeds, forbidden_by
from tasks.text.fields import MAX_GUIDANCE
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import fault
from tasks.text.patterns import matches

GOAL = "goal"  # the note of the goal's allowed files, and of its fields for another submission
TIMES = 2  # how often a step may get files


def goal_of(unit: UnitOfWork) -> Mapping[str, Any]:
    """Return the stored parts of a goal; empty if the goal allows too many files to be stored."""
    found: Mapping[str, Any] | None = unit.note(GOAL)
    return found or {}


def may_give(unit: UnitOfWork, facts: Mapping[str, Any], goal: Mapping[str, Any], path: str) -> bool:
    """Return whether a step may get a file: its goal, its risk, and files left by an operator (`tighten`) allow it."""
    tightened = unit.plan.head.tightened
    if tightened is not None and path not in tightened:
        return False
    allowed = Allowlist.of([*goal.get("allowed", ()), *facts["allowed_patterns"]], JUDGED)
    if path not in allowed or exceeds(facts, path):
        return False
    return path in allowed.files or (fault(path, forbidden_by(facts)) is None and not is_excluded(facts, path))


def is_excluded(facts: Mapping[str, Any], path: str) -> bool:
    """Return whether the patterns of the step exclude a file."""
    folded = path.casefold()
    return any(matches(each.casefold(), folded) for each in facts["excluded_patterns"])


def give(unit: UnitOfWork, step: Step, files: Sequence[str], reason: str) -> None:
    """Let the next attempt of a step also change `files`, and start it."""
    was = PlannedStep.model_validate(step.facts)
    named = (*files, *was.allowed_files)
    beside = named[MAX_LITERAL:] if was.allowed_patterns else ()
    guidance = f"{was.guidance or ''} The last attempt asked for {', '.join(files)}: change these files too.".strip()
    update = {
        "allowed_files": named[:MAX_LITERAL] if was.allowed_patterns else named,
        "allowed_patterns": (*was.allowed_patterns, *beside)[:MAX_PATTERNS],
        "guidance": guidance if len(guidance) <= MAX_GUIDANCE else was.guidance,
    }
    unit.rewrite(step, was.model_copy(update=update))
    unit.plan.asked_files.given.setdefault(step.step_id, []).append([*files])
    unit.inputs.append(["needs", step.step_id, step.status.attempt, [*files]])
    unit.move_step(step, StepState.ACTIVE.value)
    data = {"step_id": step.step_id, "attempt": step.status.attempt, "files": [*files]}
    unit.emit("step.given_files", data, reason or None)
    unit.make_ready(step)
