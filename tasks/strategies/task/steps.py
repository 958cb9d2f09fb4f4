"""The steps of a task: those of its template, filled in with the goal's files, and the one that asks for a draft."""

from __future__ import annotations

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import ROLLBACK, assess_declared, estimate, explain_raise
from tasks.strategies.drafting import cycle
from tasks.strategies.drafting.pieces import TEMPLATE_PHASES, Piece, split
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.strategies.task.templates import Row, Template
from tasks.text.fields import MAX_INTENT, fill, fit, guidance
from tasks.toolchain.catalogue import render
from tasks.toolchain.files import files_of

DRAFT_ID = "draft-plan"
VERIFY_ID = "verify-plan"
MAX_ASKED = 400  # characters of the goal in the step that asks for its plan


def draft_step(goal: Goal, attempts: int) -> PlannedStep:
    """Make the step that asks a controller for the plan of `goal`."""
    asked = "Answer the prompt of this step's input with a plan for: {goal}"
    return cycle.draft_step(
        goal,
        DRAFT_ID,
        title="Draft the plan",
        intent=fit(fill(asked, fit(goal.goal, MAX_ASKED), MAX_INTENT), MAX_INTENT),
        guidance="Answer in `output` with JSON of the input's schema. Nothing of the plan may be done yet: only read.",
        attempts=cycle.attempts_within(goal, attempts),
    )


def template_steps(project: Project, template: Template) -> tuple[PlannedStep, ...]:
    """Make the steps of a template.

    What waits for a row that dropped out waits for what that row waited for.
    """
    steps: list[PlannedStep] = []
    ends: dict[str, tuple[str, ...]] = {}
    for row in template.rows:
        waits = tuple(dict.fromkeys(end for name in row.after for end in ends[name]))
        made = _of_row(project, row, waits)
        steps += made
        ends[row.step_id] = (made[-1].step_id,) if made else waits
    return tuple(steps)


def _of_row(project: Project, row: Row, waits: tuple[str, ...]) -> tuple[PlannedStep, ...]:
    files = files_of(project.files, *row.roles)
    if row.or_every and not files:
        files = project.files
    if row.type is StepType.PATCH:
        return _patches(project, row, split(files, lambda path: assess_declared(row.risk, (path,)).level), waits)
    tools = project.check(row.check, files)
    if (row.roles and not files) or (row.check is Check.FOCUSED and not tools):
        return ()
    kind = StepType.REVIEW if row.type is StepType.TEST and not tools else row.type  # no tool: somebody must look
    return (_step(project, row, row.step_id, kind, tools=tools, depends_on=waits),)


def _patches(project: Project, row: Row, pieces: tuple[Piece, ...], waits: tuple[str, ...]) -> tuple[PlannedStep, ...]:
    """Make one step a piece, one after the other.

    Only the last can make the tests pass, so only it must.
    """
    steps: list[PlannedStep] = []
    for number, piece in enumerate(pieces, 1):
        files = piece.files
        last = number == len(pieces)
        step_id = row.step_id if len(pieces) == 1 else f"{row.step_id}-{number}"
        check = Check.NONE if only_documents(files) else row.check if last else Check.QUICK
        tools = project.check(check, files)
        depends_on = (steps[-1].step_id,) if steps else waits
        made = _step(project, row, step_id, StepType.PATCH, files=files, tools=tools, depends_on=depends_on)
        steps.append(_in_phase(made, piece.phase))
    return tuple(_numbered(steps))


def _in_phase(step: PlannedStep, phase: str | None) -> PlannedStep:
    if phase is None:
        return step
    asked = step.controller_task_spec
    hint = f"{TEMPLATE_PHASES[phase]} {asked.hint}" if asked.hint else TEMPLATE_PHASES[phase]
    return step.model_copy(update={"phase": phase, "controller_task_spec": asked.model_copy(update={"hint": hint})})


def _numbered(steps: list[PlannedStep]) -> list[PlannedStep]:
    if len(steps) == 1:
        return steps
    return [
        step.model_copy(update={"title": f"{step.title} ({number} of {len(steps)})"})
        for number, step in enumerate(steps, 1)
    ]


def _step(
    project: Project,
    row: Row,
    step_id: str,
    kind: StepType,
    *,
    files: tuple[str, ...] = (),
    tools: tuple[VerifyTool, ...] = (),
    depends_on: tuple[str, ...] = (),
) -> PlannedStep:
    mode = MODE_OF_TYPE[kind]
    goal = project.goal
    risk = assess_declared(RiskLevel.LOW if only_documents(files) else row.risk, files)
    return PlannedStep(
        step_id=step_id,
        title=row.title,
        intent=fill(row.intent, goal.goal, MAX_INTENT),
        allowed_files=files,
        verify=render(tools),
        risk_level=risk.level,
        controller_task_spec=ControllerTaskSpec(type=kind, target_file=files[0] if files else None, hint=row.hint),
        mode=mode,
        success_criteria=row.success,
        depends_on=depends_on,
        rollback_hint=ROLLBACK if files else None,
        guidance=explain_raise(risk, guidance(goal.constraints)),
        verify_tools=tools,
        queue=goal.queue,
        estimate=estimate(mode),
    )
