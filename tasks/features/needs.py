"""Handles requests of attempts for more files than their step may change.

If the goal allows the files at the step's risk, the next attempt gets them, and no failure counts. Else the attempt
failed, because a plan never gets files that its goal does not allow. The plan then stores the reason, and the command
that submits the goal with these files. A controller that does not support patterns reports the files as a violation;
that counts as the same request.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.base import FailureCategory as C
from schemas.base import GoalKind, Mode
from schemas.goal import Goal
from schemas.outcome import MAX_NEEDED
from schemas.step import PreviousFailure
from schemas.stored.features import AskedFiles
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.giving_files import GOAL, TIMES, give, goal_of, may_give
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import AFTER_END, AT_BIRTH, JUDGES, MORE_ADVICE, Feature, Judgement
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.permission import exceeds, is_permitted
from tasks.rules.strategy import Draft
from tasks.text.paths import clean, fault

REFUSED = "needs"  # the note of the files that it does not allow, by step
MOST_FILES = 1000  # of a goal's allowlist that is kept
MOST_TESTS = 100  # that fail, of the command
MOST_STEPS = 8  # in the note
MAX_REASON = 200
DEFAULT = "default"  # a goal that names no tenant or queue has this one
OPTIONS = ("language", "test_command", "repo", "tenant", "queue")  # of the command, as the note names them
UNKNOWN_PATTERNS = "its controller knows no patterns"


class Need(NamedTuple):
    """Files that an attempt asks for, with the reason; asking breaks no rule."""

    files: tuple[str, ...]
    reason: str


def keep_goal(unit: UnitOfWork, _: PlanSeed, goal: Goal, draft: Draft) -> None:
    """Store the goal's allowed files, and its fields for another submission, if its plan makes changes."""
    changes = draft.state is not None or any(step.mode is Mode.PATCH for step in draft.steps)
    if not changes or not 0 < len(goal.allowed_files) <= MOST_FILES:
        return
    context = goal.context
    kept = {
        "goal": goal.goal,
        "kind": "" if goal.steps is not None else goal.kind.value,  # no command can submit steps
        "allowed": list(dict.fromkeys(map(clean, goal.allowed_files))),
        "language": context.language,
        "test_command": context.test_command,
        "failing_tests": list(context.failing_tests[:MOST_TESTS]),
        "repo": context.repo,
        "tenant": goal.tenant,
        "queue": goal.queue,
    }
    unit.keep_note(GOAL, {name: value for name, value in kept.items() if value and value != DEFAULT})


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Give a step the files that its attempt asks for, if the goal allows them; else its failure counts."""
    step, facts = seen.step, seen.step.facts
    need = _need_of(facts, seen)
    if need is None or seen.failure is None:
        return False
    if seen.failure["category"] == C.ALLOWLIST_VIOLATION:  # only its controller calls it a violation
        seen.failure = PreviousFailure(category=C.UNKNOWN.value, suggestion=fit_evidence(need.reason)).model_dump()
    given = unit.plan.asked_files.given.get(step.step_id, [])
    new = [path for path in need.files if path not in facts["allowed_files"]]
    if not new or len(given) >= TIMES:
        told = f"It asks for {', '.join(need.files)}, which it may change." if not new else _told_too_often(need)
        seen.failure = {**seen.failure, "suggestion": fit_evidence(told)}
        return False
    known = goal_of(unit)
    if refused := [path for path in new if not may_give(unit, facts, known, path)]:
        _refuse(unit, seen, refused, need.reason)
        return False
    give(unit, step, new, need.reason)
    seen.failure = None
    return True


def _need_of(facts: Mapping[str, Any], seen: Judgement) -> Need | None:
    """Return the need of a failed attempt; None if it asks for nothing, or touched a forbidden file."""
    outcome = seen.outcome
    if outcome.success or facts["mode"] != Mode.PATCH:
        return None
    touched = [*outcome.touched_files, *outcome.created_files]
    if not all(is_permitted(facts, path) for path in touched):
        return None
    if outcome.needs and outcome.needs.files:
        reason = fit_evidence(outcome.needs.reason[:MAX_REASON])
        return Need(tuple(dict.fromkeys(map(clean, outcome.needs.files))), reason)
    if not facts["allowed_patterns"] or outcome.patterns or (seen.failure or {})["category"] != C.ALLOWLIST_VIOLATION:
        return None
    evidence = outcome.failure_evidence
    files = dict.fromkeys((*touched, *outcome.discarded_files, *(evidence.affected_files if evidence else ())))
    meant = [path for path in files if is_permitted(facts, path) and not exceeds(facts, path)]
    wanted = tuple(path for path in meant if path not in facts["allowed_files"])
    if not wanted or len(meant) < len(files) or len(wanted) > MAX_NEEDED:
        return None
    return Need(wanted, UNKNOWN_PATTERNS)


def _told_too_often(need: Need) -> str:
    return f"It asks for {', '.join(need.files)} after it was given files {TIMES} times: {need.reason}"


def _refuse(unit: UnitOfWork, seen: Judgement, files: Sequence[str], reason: str) -> None:
    """Store the files that the goal does not allow, for people, and name them in the failure."""
    step_id = seen.step.step_id
    known = unit.note(REFUSED) or {}
    kept = {name: entry for name, entry in known.items() if name != step_id}
    entry = {"files": [*files], "reason": reason, "submit": command_for(goal_of(unit), files)}
    unit.keep_note(REFUSED, dict([*kept.items(), (step_id, entry)][-MOST_STEPS:]))
    unit.plan.asked_files.refused = [*(name for name in unit.plan.asked_files.refused if name != step_id), step_id]
    unit.plan.dirty.add("live")
    told = f"It needs {', '.join(files)}, which the goal does not allow at this level: {reason or 'no reason given'}"
    seen.failure = {**(seen.failure or {}), "suggestion": fit_evidence(told)}


def command_for(goal: Mapping[str, Any], files: Iterable[str]) -> str:
    """Return the command that submits a goal again with `files` allowed; empty if no goal may allow them."""
    fitting = [path for path in files if fault(path) is None]
    if not fitting or goal.get("kind") != GoalKind.TASK:
        return ""
    words = ["planner", "submit", "--goal", goal["goal"]]
    for path in dict.fromkeys((*goal.get("allowed", ()), *fitting)):
        words += ["--file", path]
    for test in goal.get("failing_tests", ()):
        words += ["--failing-test", test]
    for name in OPTIONS:
        if value := goal.get(name):
            words += [f"--{name.replace('_', '-')}", value]
    return shlex.join(words)


def advise(unit: UnitOfWork) -> str:
    """Return the steps of an ended plan that need files outside of its goal, and how to submit a goal with these."""
    refused = unit.plan.asked_files.refused
    known = (unit.note(REFUSED) or {}) if refused else {}
    told = []
    for name in refused:
        if entry := known.get(name):
            why = f"{name} needs {', '.join(entry['files'])} ({entry['reason'] or 'no reason given'})"
            fitting = any(fault(path) is None for path in entry["files"])
            else_told = "add them to allowed_files and send the goal again" if fitting else "no goal may allow them"
            told.append(f"{why}: {entry['submit'] or else_told}")
    return " ".join(told)


def forget(unit: UnitOfWork, seen: Judgement) -> None:
    """Forget the needs of a step that is done."""
    asked = unit.plan.asked_files
    if seen.step.step_id in asked.refused:
        asked.refused = [name for name in asked.refused if name != seen.step.step_id]


FEATURE = Feature(
    "needs",
    (AT_BIRTH.row(keep_goal), JUDGES.row(judge), AFTER_END.row(forget), MORE_ADVICE.row(advise)),
    is_idle=lambda plan: not plan.keeps(AskedFiles),
)
