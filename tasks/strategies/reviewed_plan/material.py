"""What a step is given: documents that its row reads, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.kinds.reviewed_plan import ReviewDocument, ReviewState
from schemas.kinds.reviewed_plan_files import Comment, Milestone, Plan, QrPhase
from tasks.strategies.reviewed_plan import gate
from tasks.strategies.reviewed_plan.milestones import milestone_of
from tasks.strategies.reviewed_plan.operations import ENTITIES
from tasks.strategies.reviewed_plan.steps import Brief, failed_items
from tasks.strategies.reviewed_plan.workflow import CONTEXT, MILESTONE, OUTCOMES, PLAN, QR

Read = Callable[["StepView"], Any]


@dataclass(frozen=True, slots=True)
class StepView:
    """What is open, as one step sees it."""

    state: ReviewState
    document: ReviewDocument
    step_id: str
    phase: QrPhase | None


def material_of(brief: Brief, view: StepView) -> dict[str, Any]:
    """Hand a step what its row reads, which is enough to do it."""
    found = {name: READERS[name](view) for name in brief.reads}
    writes = {name: _fields(name) for name in brief.writes}
    role = brief.role.value if brief.role else None
    return {"role": role, "checklist": list(brief.checklist), **found} | ({"writes": writes} if writes else {})


def _fields(name: str) -> dict[str, Any]:
    """Say what an entity is made of, so that operations on it can be written."""
    kind = ENTITIES[name]
    needed = [each for each, field in kind.model.model_fields.items() if field.is_required() and each != "id"]
    verbs = ["set"] if kind.prefix is None else ["add", "set", "remove"]
    owned = ["milestone"] if kind.owned and kind.prefix else []
    optional = [each for each in kind.model.model_fields if each not in (*needed, "id", "version")]
    return {"op": verbs, "required": owned + needed, "optional": optional}


def _qr(view: StepView) -> Any:
    if view.phase is None or view.phase not in view.document.qr:
        return None
    file, loop = view.document.qr[view.phase], view.state.loops[view.phase]
    return {
        "iteration": loop.iteration,
        "blocks": list(gate.severities_at(view.state.schedule, loop.iteration)),
        "failed": [item.model_dump(mode="json") for item in failed_items(file)],
        "items": [item.model_dump(mode="json") for item in file.items],
    }


def _milestone(view: StepView) -> Any:
    """Take out of the plan what one milestone rests on, and no more."""
    plan, name = view.document.plan, milestone_of(view.step_id)
    found = next((each for each in plan.milestones if each.id == name), None)
    if found is None:
        return None
    refs = _refs(found)
    return {
        "plan_id": plan.plan_id,
        "overview": plan.overview.model_dump(mode="json"),
        "milestone": found.model_dump(mode="json"),
        "decisions": [e.model_dump(mode="json") for e in plan.planning_context.decision_log if e.id in refs],
        "constraints": [e.model_dump(mode="json") for e in plan.planning_context.constraints],
        "invisible_knowledge": plan.invisible_knowledge.model_dump(mode="json"),
    }


def _refs(milestone: Milestone) -> set[str | None]:
    written = milestone.documentation
    comments: tuple[Comment, ...] = (*written.algorithm_blocks, *written.inline_comments)
    intents = {ref for intent in milestone.code_intents for ref in intent.decision_refs}
    return intents | {comment.decision_ref for comment in comments}


def _plan(view: StepView) -> Any:
    plan: Plan = view.document.plan
    return plan.model_dump(mode="json")


READERS: Mapping[str, Read] = {
    CONTEXT: lambda view: view.document.context.model_dump(mode="json"),
    PLAN: _plan,
    QR: _qr,
    MILESTONE: _milestone,
    OUTCOMES: lambda view: {name: each.model_dump(mode="json") for name, each in view.document.outcomes.items()},
}
