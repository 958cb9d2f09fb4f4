"""The steps of a task: those of its template, filled in with the goal's files, and the one that asks for a draft."""

from __future__ import annotations

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import ROLLBACK, assess_declared, estimate, explain_raise
from tasks.strategies.drafting import cycle
from tasks.strategies.drafting.answers import connect_answers
from tasks.strategies.drafting.pieces import TEMPLATE_PHASES, Piece, join_pieces, split
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.strategies.task.templates import Row, Template
from tasks.text.fields import MAX_INTENT, fill, fit, guidance
from tasks.toolchain.catalogue import render
from tasks.toolchain.files import files_of, role_of

DRAFT_ID = "draft-plan"
VERIFY_ID = "verify-plan"
VERIFIED = "What verifies the step passes."
REVIEWED = "Somebody has looked at the change, which no tool verifies."
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
        added = _steps_of_row(project, row, waits)
        steps += added
        ends[row.step_id] = (added[-1].step_id,) if added else waits
    return connect_answers(steps)


def _steps_of_row(project: Project, row: Row, waits: tuple[str, ...]) -> list[PlannedStep]:
    """Make one step, or one for each piece of what a row changes, one after the other."""
    files = files_of(project.files, *row.roles)
    if row.or_every and not files:
        files = project.files
    files = tuple(sorted(files, key=lambda path: role_of(path) not in row.first)) if row.first else files
    if row.type is not StepType.PATCH:
        tools = project.check(row.check, files)
        if (row.roles and not files) or (row.check is Check.FOCUSED and not tools):
            return []
        kind = StepType.REVIEW if row.type is StepType.TEST and not tools else row.type  # no tool: somebody must look
        return [_step(project, row, kind, tools, waits)]
    pieces = split(files, lambda path: assess_declared(row.risk, (path,)).level)
    steps: list[PlannedStep] = []
    for number, piece in enumerate(pieces, 1):
        tools, added = _tools_of_piece(project, row, files, piece, last=number == len(pieces))
        waits = (steps[-1].step_id,) if steps else waits
        step = _step(project, row, StepType.PATCH, tools, waits, piece, (number, len(pieces)))
        steps.append(step.model_copy(update={"quick_checks": added}) if added else step)
    return join_pieces(steps)


def _tools_of_piece(
    project: Project, row: Row, files: tuple[str, ...], piece: Piece, *, last: bool
) -> tuple[tuple[VerifyTool, ...], tuple[str, ...]]:
    """Choose what verifies one piece of the `files` that a row changes: nothing that other pieces change.

    All of them together are judged by the steps of mode `test` that come after. Also answers the ids of the tools that
    nobody asked for, neither the goal nor the row.
    """
    if only_documents(piece.files):
        return (), ()
    whole = last and not {path for path in files if path not in piece.files and not only_documents((path,))}
    quick, added = project.quick_checks(piece.files, whole=whole)
    if row.check is Check.OWN or (row.check is not Check.NEW_TESTS and not whole):
        return project.own_checks(piece.files, whole=whole, others=quick), added
    usual = project.check(row.check, piece.files)
    asked = {tool.tool for tool in usual}
    return tuple({tool.argv: tool for tool in (*quick, *usual)}.values()), tuple(e for e in added if e not in asked)


def _step(
    project: Project,
    row: Row,
    kind: StepType,
    tools: tuple[VerifyTool, ...],
    waits: tuple[str, ...],
    piece: Piece | None = None,
    place: tuple[int, int] = (1, 1),  # of the piece among those of its row
) -> PlannedStep:
    mode = MODE_OF_TYPE[kind]
    goal = project.goal
    number, count = place
    files, phase = (piece.files, piece.phase) if piece else ((), None)
    risk = assess_declared(RiskLevel.LOW if only_documents(files) else row.risk, files)
    hints = (TEMPLATE_PHASES[phase] if phase else None, row.hint)
    return PlannedStep(
        step_id=f"{row.step_id}-{number}" if count > 1 else row.step_id,
        title=f"{row.title} ({number} of {count})" if count > 1 else row.title,
        intent=fill(row.intent, goal.goal, MAX_INTENT),
        allowed_files=files,
        verify=render(tools),
        risk_level=risk.level,
        controller_task_spec=ControllerTaskSpec(
            type=kind, target_file=files[0] if files else None, hint=" ".join(filter(None, hints)) or None
        ),
        mode=mode,
        success_criteria=_criteria(row, kind, tools),
        depends_on=waits,
        rollback_hint=ROLLBACK if files else None,
        phase=phase,
        guidance=explain_raise(risk, guidance(goal.constraints)),
        verify_tools=tools,
        queue=goal.queue,
        estimate=estimate(mode),
        allow_empty=row.allow_empty,
    )


def _criteria(row: Row, kind: StepType, tools: tuple[VerifyTool, ...]) -> str:
    """Say when a step is done: what verifies it, or what has to be in its answer; a change is promised nothing else."""
    if tools:
        return VERIFIED
    return REVIEWED if kind is StepType.REVIEW else row.success
