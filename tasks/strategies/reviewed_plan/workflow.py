"""The whole workflow as one table: eleven rows of planning, nine of execution.

Each row names its role, its inputs and outputs, its work and checks, and the next rows after a pass and after a fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from schemas.kinds.reviewed_plan import ReviewDocument, Workflow
from schemas.kinds.reviewed_plan_files import QrPhase
from tasks.strategies.reviewed_plan.document import begin_outcomes, execution_errors, freeze
from tasks.strategies.reviewed_plan.implementation import document_steps, wave_steps
from tasks.strategies.reviewed_plan.markdown import plan_md
from tasks.strategies.reviewed_plan.milestones import RoleName
from tasks.strategies.reviewed_plan.rows import (
    WorkflowRow,
    context_step,
    execute_dispatch_step,
    patch_dispatch_step,
    planner_step,
    qr_dispatch_step,
    qr_gate_step,
    reconcile_step,
)
from tasks.strategies.reviewed_plan.state import Turn
from tasks.strategies.reviewed_plan.steps import Brief
from tasks.strategies.reviewed_plan.words import MAX_FAULTS, sum_up

ARCHITECT, DEVELOPER, WRITER, REVIEWER = RoleName
DESIGN, CODE, DOCS, IMPL_CODE, IMPL_DOCS = QrPhase
CONTEXT, PLAN, QR, MILESTONE, OUTCOMES = "context", "plan", "qr", "milestone", "outcomes"  # readable by material

ITEMS = "Answer items, each with id, scope, check, severity (MUST, SHOULD, COULD), status PASS or FAIL, and a finding "
VERDICTS = (
    ITEMS
    + "for every FAIL, and your verdict, PASS or FAIL. Decide every open item again; what passed may be checked again."
)
OPERATIONS = "Answer operations on plan.json (add, set, remove), each with the version that it changes."


def _load(turn: Turn) -> Turn:
    """Return the turn with a frozen plan that can be executed; halt if the plan is not complete or not allowed."""
    if wrong := tuple(execution_errors(turn.plan, turn.allowed, "/document/plan")):
        evidence = {"errors": [error.model_dump() for error in wrong[:MAX_FAULTS]]}
        return replace(turn, halt=("plan_unfit", sum_up(error.message for error in wrong), evidence))
    return replace(turn, document=begin_outcomes(freeze(turn.document, turn.now)))


def _render(document: ReviewDocument, _: int) -> ReviewDocument:
    return document.model_copy(update={"plan_md": plan_md(document.plan)})


PLANNING = (
    planner_step(Brief(1, "plan-init", ahead="context-verify")),
    context_step(
        Brief(
            2, "context-verify", title="Write the context",
            guidance="Study the goal and the code, and answer context.json: the task, its scope, its non-goals, "
            "constraints, entry points, dismissed alternatives, the present behaviour, and assumptions. "
            "Leave out a list that would be empty.",
            checklist=("the subject is one sentence", "the parts out of scope are named", "entry points exist"),
            ahead="plan-design-execute",
        )
    ),
    execute_dispatch_step(
        Brief(
            3, "plan-design-execute", ARCHITECT, "Design the plan", reads=(CONTEXT, PLAN, QR),
            writes=("overview", "decision", "rejected_alternative", "constraint", "risk", "invisible_knowledge",
                    "milestone", "code_intent", "milestone_dependencies"),
            guidance="Explore the repository, then write the design: the problem and the approach, decisions with at "
            "least two steps of reasoning, what was rejected and why, risks, and milestones with their files, tests "
            "and code intents. Say by depends_on which milestone needs which. " + OPERATIONS,
            fix="Repair the design where the review found fault: set wrong parts, add missing parts, remove parts "
            "that nothing needs. Leave the rest unchanged. " + OPERATIONS,
            checklist=("the problem is stated", "every milestone has acceptance criteria and code intents",
                       "every reference leads somewhere", "the parts out of scope are named"),
            ahead="plan-design-qr",
        ),
        DESIGN,
    ),
    qr_dispatch_step(
        Brief(
            4, "plan-design-qr", REVIEWER, "Review the design", reads=(CONTEXT, PLAN, QR),
            guidance="Break the review of the design down into items: is it complete, does it follow from the context, "
            "can another agent carry it out. " + VERDICTS,
            checklist=("each requirement of the context is covered", "decisions are reasoned", "risks are answered",
                       "milestones can be tested one by one"),
            ahead="plan-design-qr-gate",
        ),
        DESIGN,
    ),
    qr_gate_step(
        Brief(5, "plan-design-qr-gate", ahead="plan-code-execute", back="plan-design-execute"),
        DESIGN,
    ),
    execute_dispatch_step(
        Brief(
            6, "plan-code-execute", DEVELOPER, "Write the code changes", reads=(CONTEXT, PLAN, QR),
            writes=("code_change",),
            guidance="For every code intent write a code change: one unified diff of one file of its milestone. Its "
            "context lines are in that file, and its comments give reasons. " + OPERATIONS,
            fix="Repair the diffs that failed: read their files again and set each diff as a whole. Where an intent "
            "cannot be carried out as it stands, say why in why_comments. " + OPERATIONS,
            checklist=("every intent has a change", "diffs are well-formed", "diffs carry out their intents"),
            ahead="plan-code-qr",
        ),
        CODE,
    ),
    qr_dispatch_step(
        Brief(
            7, "plan-code-qr", REVIEWER, "Review the code changes", reads=(CONTEXT, PLAN, QR),
            guidance="Break the review of the diffs down into items. Judge whether they are faithful to their intents, "
            "not their line numbers: wrong files, wrong changes and invented context lines fail. " + VERDICTS,
            checklist=("each diff carries out its intent", "context lines exist", "nothing else is changed"),
            ahead="plan-code-qr-gate",
        ),
        CODE,
    ),
    qr_gate_step(
        Brief(8, "plan-code-qr-gate", ahead="plan-docs-execute", back="plan-code-execute"), CODE
    ),
    execute_dispatch_step(
        Brief(
            9, "plan-docs-execute", WRITER, "Write the documentation of the plan", reads=(CONTEXT, PLAN, QR),
            writes=("documentation",),
            guidance="For every milestone with code write its documentation: module comment, docstrings, algorithms "
            "and inline comments with reasons, from the decisions of the plan. Describe the code, not its changes. "
            + OPERATIONS,
            fix="Repair the documentation that failed: set the whole of a milestone's, with its right parts. "
            + OPERATIONS,
            checklist=("every milestone with code is documented", "comments give reasons", "no comment is history"),
            ahead="plan-docs-qr",
        ),
        DOCS,
        _render,
    ),
    qr_dispatch_step(
        Brief(
            10, "plan-docs-qr", REVIEWER, "Review the documentation of the plan", reads=(CONTEXT, PLAN, QR),
            guidance="Break the review of the documentation down into items: is it right, does it give "
            "reasons, does it rest on decisions of the plan. " + VERDICTS,
            checklist=("documentation agrees with the changes", "reasons are given", "nothing is repeated"),
            ahead="plan-docs-qr-gate",
        ),
        DOCS,
    ),
    qr_gate_step(
        Brief(11, "plan-docs-qr-gate", ahead="init", back="plan-docs-execute"), DOCS, freeze
    ),
)  # fmt: skip

EXECUTION = (
    planner_step(Brief(1, "init", ahead="load-verify")),
    planner_step(Brief(2, "load-verify", ahead="impl-execute"), _load),
    patch_dispatch_step(
        Brief(
            3, "impl-execute", DEVELOPER, "Carry out a milestone", reads=(MILESTONE, QR),
            guidance="Carry out the code intents of this step's files along the diffs and the documentation of the "
            "plan. If a diff no longer fits, follow its intent.",
            fix="Repair the findings of the review in these files and change nothing else.",
            checklist=("acceptance criteria hold", "tests pass without warnings"),
            ahead="impl-code-qr",
        ),
        IMPL_CODE,
        wave_steps,
    ),
    qr_dispatch_step(
        Brief(
            4, "impl-code-qr", REVIEWER, "Review the implementation", reads=(CONTEXT, PLAN, OUTCOMES, QR),
            guidance="Break the review of the code as it is now down into items, each with its file as scope. "
            + VERDICTS,
            checklist=("every intent is carried out", "acceptance criteria hold", "invariants hold"),
            ahead="impl-code-qr-gate",
        ),
        IMPL_CODE,
    ),
    qr_gate_step(
        Brief(5, "impl-code-qr-gate", ahead="impl-docs-execute", back="impl-execute"), IMPL_CODE
    ),
    patch_dispatch_step(
        Brief(
            6, "impl-docs-execute", WRITER, "Document the work", reads=(PLAN, OUTCOMES, QR),
            guidance="Update the documents to the present code, with the reasons of the plan. Describe no past.",
            fix="Repair the findings of the review in the documents and change nothing else.",
            checklist=("documents agree with the code", "decisions and trade-offs are described"),
            ahead="impl-docs-qr",
        ),
        IMPL_DOCS,
        document_steps,
    ),
    qr_dispatch_step(
        Brief(
            7, "impl-docs-qr", REVIEWER, "Review the documents", reads=(CONTEXT, PLAN, OUTCOMES, QR),
            guidance="Break the review of the documents down into items, each with its file as scope. " + VERDICTS,
            checklist=("documents agree with the code", "a newcomer understands why"),
            ahead="impl-docs-qr-gate",
        ),
        IMPL_DOCS,
    ),
    qr_gate_step(
        Brief(8, "impl-docs-qr-gate", ahead="reconcile", back="impl-docs-execute"), IMPL_DOCS
    ),
    reconcile_step(
        Brief(
            9, "reconcile", REVIEWER, "Reconcile plan and outcome", reads=(PLAN, OUTCOMES),
            guidance="Lay plan and code side by side. Answer milestones, each once, with id, outcome (SATISFIED, "
            "PARTIALLY_SATISFIED, NOT_SATISFIED) and deviations, and a summary.",
            checklist=("every milestone is judged", "every deviation is named"),
        )
    ),
)  # fmt: skip

ROWS: Mapping[str, WorkflowRow] = MappingProxyType({row.brief.name: row for row in (*PLANNING, *EXECUTION)})
PARTS: Mapping[Workflow, tuple[str, ...]] = MappingProxyType(
    {
        Workflow.PLAN: tuple(row.brief.name for row in PLANNING),
        Workflow.EXECUTE: tuple(row.brief.name for row in EXECUTION),
        Workflow.BOTH: tuple(ROWS),
    }
)


def go(turn: Turn, name: str | None) -> Turn:
    """Go from row to row, from `name` on, until a row waits for its steps or the requested part is over."""
    while name in PARTS[turn.state.workflow] and name is not None:
        turn, name = ROWS[name].enter(turn)
    return turn
