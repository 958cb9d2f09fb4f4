"""The plan's execution, seen from plan.json: where a round works, what became of each milestone, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from schemas.base import StepState
from schemas.review import MilestoneOutcome, Reconciliation, Report, ReviewDocument
from schemas.review_qr import GateRecord, QrPhase
from tasks.strategies.drafting.project import Project
from tasks.strategies.reviewed_plan.implementing import Site, milestone_of
from tasks.strategies.reviewed_plan.operations import Refused
from tasks.strategies.reviewed_plan.roles import delegate, is_external
from tasks.strategies.reviewed_plan.steps import Brief, failed_items
from tasks.strategies.reviewed_plan.turn import Turn
from tasks.strategies.reviewed_plan.waves import waves_of
from tasks.strategies.reviewed_plan.words import cleaned

DELEGATED, NOT_RUN, SATISFIED = "DELEGATED", "NOT_RUN", "SATISFIED"
MAX_UNTOUCHED = 20  # files told of one milestone
# The worst that happened to a step is what became of its milestone.
WORST = (StepState.FAILED.value, StepState.SKIPPED.value, StepState.DONE.value)


def site_of(turn: Turn, brief: Brief, phase: QrPhase) -> Site:
    """Say where the round of work before the next review of `phase` takes place."""
    failed = failed_items(turn.document.qr.get(phase))
    return Site(brief, project_of(turn), turn.plan, turn.loop(phase).iteration, failed)


def project_of(turn: Turn) -> Project:
    """Read the project as it was read at the beginning, whatever of the goal has not been kept since."""
    context = turn.goal.context.model_copy(update={"language": turn.state.language})
    command = (context.test_command or "").strip()
    test = turn.catalogue.match(command) if command else None
    return Project.of(turn.goal.model_copy(update={"context": context}), turn.allowed, test, turn.catalogue)


def outlined(document: ReviewDocument) -> ReviewDocument:
    """Begin the outcomes: every milestone is still to be done, here or by whom it was delegated to."""
    outcomes = {
        each.id: MilestoneOutcome(outcome=DELEGATED, delegated_to=delegate(each))
        if is_external(each)
        else MilestoneOutcome(outcome=NOT_RUN)
        for each in document.plan.milestones
    }
    return document.model_copy(update={"outcomes": outcomes})


def tallied(turn: Turn) -> Turn:
    """Put how the steps of a part ended to their milestones."""
    outcomes = dict(turn.document.outcomes)
    for end in turn.state.ended:
        name = milestone_of(end.step_id)
        if name in outcomes:
            found = outcomes[name]
            untouched = tuple(dict.fromkeys((*found.untouched, *end.untouched)))[:MAX_UNTOUCHED]
            worst = _worst(found.outcome, end.state)
            outcomes[name] = found.model_copy(update={"outcome": worst, "untouched": untouched})
    return turn.writing(outcomes=outcomes)


def _worst(before: str, now: str) -> str:
    return min((each for each in (before, now) if each in WORST), key=WORST.index, default=before)


def reconciled(turn: Turn, answer: Reconciliation) -> Turn:
    """Lay plan and outcome side by side; Refused where the reviewer left a milestone out."""
    said = {each.id: each for each in answer.milestones}
    known = {each.id for each in turn.plan.milestones}
    if said.keys() != known or len(said) != len(answer.milestones):
        raise Refused(f"incomplete: the milestones to reconcile, once each, are {', '.join(sorted(known))}"[:900])
    clean = cleaned({name: {"review": e.outcome, "deviations": list(e.deviations)} for name, e in said.items()})
    satisfied = sum(each.outcome == SATISFIED for each in answer.milestones)
    turn = turn.told("reconcile", f"{satisfied} of {len(said)} milestones are satisfied")
    return turn.writing(report=reported(turn.document, "COMPLETED", clean, cleaned(answer.summary)))


def reported(
    document: ReviewDocument,
    status: Literal["COMPLETED", "BLOCKED", "ABORTED"],
    said: dict[str, dict[str, Any]] | None = None,
    summary: str = "",
) -> Report:
    """Make the report: what was planned, what became of it, and what the gates said."""
    rows = [
        {"id": each.id, "name": each.name, "wave": wave} | _outcome(document, each.id) | (said or {}).get(each.id, {})
        for wave, milestones in enumerate(waves_of(document.plan), 1)
        for each in milestones
    ]
    return Report(status=status, milestones=tuple(rows), gates=_gates(document.gate_history), summary=summary)


def _outcome(document: ReviewDocument, name: str) -> dict[str, Any]:
    found = document.outcomes.get(name) or MilestoneOutcome(outcome=NOT_RUN)
    return found.model_dump(mode="json")


def _gates(history: Iterable[GateRecord]) -> dict[QrPhase, dict[str, Any]]:
    """Count the iterations of each gate, and say how it ended."""
    some = list(history)
    times = Counter(record.phase for record in some)
    return {record.phase: {"iterations": times[record.phase], "verdict": record.verdict} for record in some}
