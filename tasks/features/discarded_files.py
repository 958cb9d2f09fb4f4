"""Handles files that a step may not change, and that the controller restored before it verified. This breaks no rule.

If the verification fails without these changes, the step needed the files. Once for each step, the next attempt may
also change the files that the goal allows at the step's risk, and no failure counts. The second time the failure
counts, and names the files. A file that the attempt also reports as touched is not excused.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.base import Mode
from schemas.outcome import MAX_NEEDED
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.giving_files import TIMES, give, goal_of, is_excluded, may_give
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import JUDGES, Feature, Judgement, always
from tasks.rules.permission import is_permitted
from tasks.text.paths import clean
from tasks.toolchain.classify import HALTS_AT_ONCE

SHOWN = 20
NEEDED = "these were changed, put back, and the verification is red without them"


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Emit an event with the restored files; give them to the next attempt if the verification failed without them.

    Returns whether the step got files, which its goal has to allow.
    """
    step, outcome, facts = seen.step, seen.outcome, seen.step.facts
    touched = {*outcome.touched_files, *outcome.created_files}
    files = [path for path in dict.fromkeys(map(clean, outcome.discarded_files)) if path not in touched]
    if not files:
        return False
    data = {"step_id": step.step_id, "attempt": step.status.attempt, "files": files[:SHOWN], "count": len(files)}
    unit.emit("outcome.discarded", data)
    if facts["mode"] != Mode.PATCH or not _is_red(seen) or not all(is_permitted(facts, path) for path in touched):
        return False
    asked = unit.plan.asked_files
    if step.step_id in asked.discarded:
        told = f"Not this step's, and reverted: {', '.join(files[:MAX_NEEDED])}. Change only files of this step."
        seen.failure = {**(seen.failure or {}), "suggestion": fit_evidence(told)}
        return False
    asked.discarded = [*asked.discarded, step.step_id]
    unit.plan.dirty.add("live")
    if wanted := _wanted(unit, seen, files):
        give(unit, step, wanted, NEEDED)
    return bool(wanted)


def _is_red(seen: Judgement) -> bool:
    """Return whether a verification ran and failed, without a failure that halts a plan at once."""
    failure = seen.failure
    return failure is not None and seen.outcome.tests_passed is False and failure["category"] not in HALTS_AT_ONCE


def _wanted(unit: UnitOfWork, seen: Judgement, files: Sequence[str]) -> list[str]:
    """Return the files that the step may get; files that it excludes, such as its failing tests, are left out."""
    facts, goal = seen.step.facts, goal_of(unit)
    if len(unit.plan.asked_files.given.get(seen.step.step_id, [])) >= TIMES:
        return []
    new = (path for path in files if path not in facts["allowed_files"] and not is_excluded(facts, path))
    return [path for path in new if may_give(unit, facts, goal, path)][:MAX_NEEDED]


FEATURE = Feature(
    "discarded_files", (JUDGES.row(judge, told="discarded_files"),), events=("outcome.discarded",), is_idle=always
)
