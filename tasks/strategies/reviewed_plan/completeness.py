"""What plan.json must hold before a phase of it may be reviewed (spec B2, "Validation")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from schemas.review_plan import Milestone, Plan
from schemas.review_qr import QrPhase
from tasks.strategies.reviewed_plan.roles import is_external


def gaps(plan: Plan, phase: QrPhase) -> Iterator[str]:
    """Say what the work of `phase` leaves missing: what nobody but its own role can add."""
    yield from CHECKS[phase](plan)


def is_coded(milestone: Milestone) -> bool:
    """Whether code is written for a milestone here: not for documentation, nor for what others do."""
    return not milestone.is_documentation_only and not is_external(milestone)


def _design(plan: Plan) -> Iterator[str]:
    if not plan.overview.problem.strip():
        yield "incomplete: the overview does not say what the problem is"
    if not plan.milestones:
        yield "incomplete: there is no milestone"
    for milestone in filter(is_coded, plan.milestones):
        if not milestone.code_intents:
            yield f"incomplete: {milestone.id} has no code intent"


def _code(plan: Plan) -> Iterator[str]:
    for milestone in filter(is_coded, plan.milestones):
        changed = {each.intent_ref for each in milestone.code_changes}
        for intent in milestone.code_intents:
            if intent.id not in changed:
                yield f"incomplete: {intent.id} has no code change"


def _docs(plan: Plan) -> Iterator[str]:
    for milestone in filter(is_coded, plan.milestones):
        if milestone.code_changes and milestone.documentation.is_empty:
            yield f"incomplete: {milestone.id} has no documentation"


# One row a phase, in the order of the workflow.
CHECKS: Mapping[QrPhase, Callable[[Plan], Iterator[str]]] = {
    QrPhase.PLAN_DESIGN: _design,
    QrPhase.PLAN_CODE: _code,
    QrPhase.PLAN_DOCS: _docs,
}
