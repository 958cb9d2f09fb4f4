"""Makes the document of a reviewed plan, freezes its plan, and reports the results.

plan.json is empty at first, or the plan that the goal supplies; context.json has no empty entries. The report contains
the planned work, the outcome of each milestone, and the results of the gates.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal

from schemas import codec
from schemas.base import StepState
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.kinds.reviewed_plan import (
    MAX_FACT,
    MilestoneOutcome,
    Reconciliation,
    ReviewContext,
    ReviewDocument,
    ReviewedPlanInput,
    ReviewReport,
)
from schemas.kinds.reviewed_plan_files import Plan, QrPhase, Wave
from schemas.times import rfc3339
from tasks.strategies.reviewed_plan.integrity import faults, gaps, size_faults
from tasks.strategies.reviewed_plan.markdown import plan_md
from tasks.strategies.reviewed_plan.milestones import delegate_of, files_of, is_external, milestone_of, waves_of
from tasks.strategies.reviewed_plan.operations import AnswerRefused
from tasks.strategies.reviewed_plan.state import Turn
from tasks.strategies.reviewed_plan.steps import AGAIN
from tasks.strategies.reviewed_plan.words import clean_words, fit_model
from tasks.text.fields import fit

# The entry of an empty list in context.json: an empty list would not show that it was considered.
SENTINELS: Mapping[str, str] = {
    "constraints": "none confirmed",
    "entry_points": "greenfield",
    "rejected_alternatives": "none discussed",
    "current_understanding": "none",
    "assumptions": "none",
    "invisible_knowledge": "none",
    "user_quotes": "none",
}

DELEGATED, NOT_RUN, SATISFIED = "DELEGATED", "NOT_RUN", "SATISFIED"
MAX_UNTOUCHED = 20  # reported files of one milestone
# The worst end of a step is the outcome of its milestone.
WORST = (StepState.FAILED.value, StepState.SKIPPED.value, StepState.DONE.value)


def open_document(goal: Goal, given: ReviewedPlanInput, now: int) -> ReviewDocument:
    """Return the first document of a reviewed plan, with the supplied plan or an empty one.

    Unknown fields of a supplied plan are dropped. Raises ValidationError if cleaning leaves a required text empty.
    """
    plan = empty_plan(goal, now) if given.plan is None else fit_model(Plan, given.plan)
    return ReviewDocument(plan=plan, context=fill_context(goal, given.context))


def empty_plan(goal: Goal, now: int) -> Plan:
    """Return an empty plan.json; its id depends only on goal and time, so a repeated draft has the same id."""
    digest = hashlib.blake2b(codec.dumps([goal.goal_id, goal.goal, now]), digest_size=16).hexdigest()
    parts = (digest[:8], digest[8:12], f"8{digest[13:16]}", f"8{digest[17:20]}", digest[20:])  # a UUID of version 8
    return Plan(plan_id="-".join(parts), created_at=rfc3339(now))


def fill_context(goal: Goal, context: ReviewContext) -> ReviewContext:
    """Return context.json without empty lists: the goal is the task, and each other empty list gets a sentinel text."""
    given = fit_model(ReviewContext, context)
    empty: dict[str, tuple[str, ...]] = {
        name: (word,) for name, word in SENTINELS.items() if not any(map(str.strip, getattr(given, name)))
    }
    if not any(map(str.strip, given.task_spec)):
        empty["task_spec"] = (goal.goal[:MAX_FACT],)
    if goal.constraints and "constraints" in empty:
        empty["constraints"] = goal.constraints
    return fit_model(ReviewContext, given.model_copy(update=empty))


def freeze(document: ReviewDocument, now: int) -> ReviewDocument:
    """Return the document with plan.json frozen and plan.md written; a frozen plan stays unchanged.

    If the plan has no waves, they are computed from the dependencies.
    """
    plan = document.plan
    if plan.frozen_at is None:
        order = plan.milestone_dependencies
        if not order.waves:
            names = [tuple(milestone.id for milestone in wave) for wave in waves_of(plan)]
            waves = tuple(Wave(wave=number, milestones=wave) for number, wave in enumerate(names, 1))
            order = order.model_copy(update={"waves": waves, "version": order.version + 1})
        plan = plan.model_copy(update={"frozen_at": rfc3339(now), "milestone_dependencies": order})
    return document.model_copy(update={"plan": plan, "plan_md": plan_md(plan)})


def execution_errors(plan: Plan, allowed: tuple[str, ...], pointer: str) -> Iterator[FieldError]:
    """Yield an error for everything that keeps the plan from being executed; `pointer` is its place in the goal."""
    found = faults(plan, frozenset(allowed)), gaps(plan, QrPhase.PLAN_DESIGN), size_faults(plan)
    yield from _errors(chain(*found), pointer)


def planning_errors(plan: Plan, allowed: tuple[str, ...], pointer: str) -> Iterator[FieldError]:
    """Yield an error for each fault of a supplied plan that would make every change of it invalid."""
    yield from _errors(chain(faults(plan, frozenset(allowed) or None), size_faults(plan)), pointer)


def _errors(sentences: Iterable[str], pointer: str) -> Iterator[FieldError]:
    for fault in sentences:
        code, _, sentence = fault.partition(": ")
        yield FieldError(pointer=pointer, code=f"plan_{code}", message=fit(sentence, 500))


def begin_outcomes(document: ReviewDocument) -> ReviewDocument:
    """Return the document with an outcome for each milestone: not run yet, or delegated to someone else."""
    outcomes = {
        each.id: MilestoneOutcome(outcome=DELEGATED, delegated_to=delegate_of(each))
        if is_external(each)
        else MilestoneOutcome(outcome=NOT_RUN)
        for each in document.plan.milestones
    }
    return document.model_copy(update={"outcomes": outcomes})


def tally(turn: Turn) -> Turn:
    """Return the turn with the ends of its steps recorded in the outcomes of their milestones."""
    outcomes = dict(turn.document.outcomes)
    for end in turn.state.ended:
        name = milestone_of(end.step_id)
        if name in outcomes:
            before = outcomes[name]
            was_done = turn.document.outcomes[name].outcome == StepState.DONE and AGAIN.search(end.step_id)
            left = dict.fromkeys((*before.untouched, *(() if was_done else end.untouched)))
            untouched = tuple(path for path in left if path not in before.mended)[:MAX_UNTOUCHED]
            states = [each for each in (before.outcome, end.state) if each in WORST]
            worst = min(states, key=WORST.index, default=before.outcome)
            outcomes[name] = before.model_copy(update={"outcome": worst, "untouched": untouched})
    return turn.with_document(outcomes=outcomes)


def forget(turn: Turn) -> Turn:
    """Return the turn with outcomes reset for all milestones with a step that did not succeed and is tried again."""
    outcomes = dict(turn.document.outcomes)
    for end in turn.state.ended:
        name = milestone_of(end.step_id)
        if name in outcomes and end.state != StepState.DONE:
            outcomes[name] = outcomes[name].model_copy(update={"outcome": NOT_RUN})
    return turn.with_document(outcomes=outcomes, report=None)


def note_mended(turn: Turn, files: Collection[str]) -> Turn:
    """Return the turn with these files recorded as repaired in the outcomes of their milestones."""
    outcomes = dict(turn.document.outcomes)
    for each in turn.plan.milestones:
        own, before = files_of(each), outcomes.get(each.id)
        if before is not None and (mended := [path for path in own if path in files]):
            known = tuple(dict.fromkeys((*before.mended, *mended)))
            outcomes[each.id] = before.model_copy(update={"mended": known})
    return turn.with_document(outcomes=outcomes)


def reconcile(turn: Turn, answer: Reconciliation) -> Turn:
    """Return the turn with the report of a completed plan, including the reviewer's comparison with the outcome.

    Raises AnswerRefused if the comparison does not name each milestone once.
    """
    said = {each.id: each for each in answer.milestones}
    known = {each.id for each in turn.plan.milestones}
    if said.keys() != known or len(said) != len(answer.milestones):
        raise AnswerRefused(f"incomplete: the milestones to reconcile, once each, are {', '.join(sorted(known))}"[:900])
    clean = clean_words({name: {"review": e.outcome, "deviations": list(e.deviations)} for name, e in said.items()})
    satisfied = sum(each.outcome == SATISFIED for each in answer.milestones)
    turn = turn.with_phase("reconcile", f"{satisfied} of {len(said)} milestones are satisfied")
    return turn.with_document(report=make_report(turn.document, "COMPLETED", clean, clean_words(answer.summary)))


def make_report(
    document: ReviewDocument,
    status: Literal["COMPLETED", "BLOCKED", "ABORTED"],
    said: dict[str, dict[str, Any]] | None = None,
    summary: str = "",
) -> ReviewReport:
    """Return the report: the planned work, its outcome, and the results of the gates."""
    rows = []
    for wave, milestones in enumerate(waves_of(document.plan), 1):
        for each in milestones:
            outcome = document.outcomes.get(each.id) or MilestoneOutcome(outcome=NOT_RUN)
            row = {"id": each.id, "name": each.name, "wave": wave, **outcome.model_dump(mode="json")}
            rows.append(row | (said or {}).get(each.id, {}))
    history = document.gate_history
    times = Counter(record.phase for record in history)
    gates = {
        record.phase: {
            "iterations": times[record.phase],
            "verdict": record.verdict,
            **({"unverified": True} if record.unverified else {}),
        }
        for record in history
    }
    return ReviewReport(status=status, milestones=tuple(rows), gates=gates, summary=summary)
