"""Makes the input of a step: the documents that its row reads, and the form of its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.kinds.reviewed_plan import ReviewDocument, ReviewState
from schemas.kinds.reviewed_plan_answers import ENTITIES
from schemas.kinds.reviewed_plan_files import Comment, QrPhase
from tasks.strategies.drafting.project import Project
from tasks.strategies.reviewed_plan import gate
from tasks.strategies.reviewed_plan.milestones import milestone_of
from tasks.strategies.reviewed_plan.prompt import MAX_FILES
from tasks.strategies.reviewed_plan.steps import Brief, failed_items
from tasks.strategies.reviewed_plan.workflow import CONTEXT, MILESTONE, OUTCOMES, PLAN, QR
from tasks.toolchain.command_lines import render

Read = Callable[["OpenStep"], Any]


@dataclass(frozen=True, slots=True)
class OpenStep:
    """A step that a role works on now, with the state and document that its material comes from."""

    state: ReviewState
    document: ReviewDocument
    step_id: str
    phase: QrPhase | None


def material_of(brief: Brief, step: OpenStep, project: Callable[[], Project]) -> dict[str, Any]:
    """Return the input of a step: the documents that its row reads, its checklist, and the entities that it may write.

    A step that designs also gets the files and tests of the goal's `project`.
    """
    material: dict[str, Any] = {"role": brief.role.value if brief.role else None, "checklist": list(brief.checklist)}
    material |= {name: READERS[name](step) for name in brief.reads}
    if step.state.mended and OUTCOMES in brief.reads:
        material["mended"] = list(step.state.mended)
    if brief.writes:
        material["writes"] = {name: _fields(name) for name in brief.writes}
    if step.phase is QrPhase.PLAN_DESIGN and brief.writes:
        found = project()
        material |= {"files": list(found.files[:MAX_FILES]), "verify": render(found.tests)}
    return material


def _fields(name: str) -> dict[str, Any]:
    """Return which operations on an entity are possible, with its required and optional fields."""
    kind = ENTITIES[name]
    verbs = ["set"] if kind.prefix is None else ["add", "set", "remove"]
    optional = [each for each in kind.fields if each not in kind.required]
    return {"op": verbs, "required": list(kind.required), "optional": optional}


def _qr(step: OpenStep) -> Any:
    if step.phase is None or step.phase not in step.document.qr:
        return None
    file, loop = step.document.qr[step.phase], step.state.loops[step.phase]
    return {
        "iteration": loop.iteration,
        "blocks": list(gate.severities_at(step.state.schedule, loop.iteration)),
        "failed": [item.model_dump(mode="json") for item in failed_items(file)],
        "items": [item.model_dump(mode="json") for item in file.items],
    }


def _milestone(step: OpenStep) -> Any:
    """Return one milestone with the decisions, constraints and overview of the plan that a controller needs for it."""
    plan, name = step.document.plan, milestone_of(step.step_id)
    found = next((each for each in plan.milestones if each.id == name), None)
    if found is None:
        return None
    written = found.documentation
    comments: tuple[Comment, ...] = (*written.algorithm_blocks, *written.inline_comments)
    refs = {ref for intent in found.code_intents for ref in intent.decision_refs}
    refs |= {comment.decision_ref for comment in comments if comment.decision_ref}
    return {
        "plan_id": plan.plan_id,
        "overview": plan.overview.model_dump(mode="json"),
        "milestone": found.model_dump(mode="json"),
        "decisions": [e.model_dump(mode="json") for e in plan.planning_context.decision_log if e.id in refs],
        "constraints": [e.model_dump(mode="json") for e in plan.planning_context.constraints],
        "invisible_knowledge": plan.invisible_knowledge.model_dump(mode="json"),
    }


READERS: Mapping[str, Read] = {
    CONTEXT: lambda step: step.document.context.model_dump(mode="json"),
    PLAN: lambda step: step.document.plan.model_dump(mode="json"),
    QR: _qr,
    MILESTONE: _milestone,
    OUTCOMES: lambda step: {name: each.model_dump(mode="json") for name, each in step.document.outcomes.items()},
}
