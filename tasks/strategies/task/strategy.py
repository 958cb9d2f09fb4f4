"""The strategy of the kind `task`: a sentence and a repository's context become steps by template (seed 001).

Supplied steps are taken as they are; a drafter may plan in the template's place (`asking.py`). The validator has the
last word in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.rules.assessment import raised, told
from tasks.rules.risk import RISK, ROLLBACK, estimate
from tasks.rules.strategy import Answer, Draft, Setting
from tasks.rules.validation import max_steps, rejected, validate
from tasks.strategies.drafting.pieces import TEMPLATE_PHASES
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.strategies.task import supplied
from tasks.strategies.task.asking import drafted
from tasks.strategies.task.goal_type import GoalType, goal_type
from tasks.strategies.task.templates import TEMPLATES, Row, Template
from tasks.text.fields import MAX_INTENT, filled, guidance
from tasks.text.forbidden_paths import Forbidden
from tasks.text.paths import Expanded, expand_globs
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, render
from tasks.toolchain.files import chunks, having

NOWHERE = Setting()


def draft(goal: Goal, catalogue: Catalogue = CATALOGUE, setting: Setting = NOWHERE) -> Answer:
    """Answer `goal` with the steps it brings, or with those of its drafter or of the template for its type. Pure."""
    allowed = expand_globs(goal.allowed_files, goal.context.files, forbidden=setting.forbidden)
    test, untested = _test_command(goal, catalogue)
    if errors := allowed.errors + untested:
        return rejected("invalid_goal", errors)
    if goal.steps is not None:
        return _supplied(goal, allowed, catalogue, setting.forbidden)
    project = Project.of(goal, allowed.files, test, catalogue)
    template = _templated(project)
    return template if setting.drafter == NOWHERE.drafter else drafted(project, template, setting)


def _test_command(goal: Goal, catalogue: Catalogue) -> tuple[VerifyTool | None, tuple[FieldError, ...]]:
    command = (goal.context.test_command or "").strip()
    if not command:
        return None, ()
    try:
        return catalogue.match(command), ()
    except UnknownCommand as error:
        return None, (field_error("/context/test_command", "unknown_test_command", str(error)),)


def _supplied(goal: Goal, allowed: Expanded, catalogue: Catalogue, forbidden: Forbidden) -> Answer:
    steps, errors = supplied.convert(goal, goal.steps or (), catalogue)
    if not allowed.files and any(step.controller_task_spec.type is StepType.PATCH for step in steps):
        errors = (_no_allowed_files(goal), *errors)
    if not errors:
        return Draft(steps)
    told = {error.pointer for error in errors}
    follow = set() if allowed.files else {"outside_allowlist"}  # of every file, where none is allowed
    found = validate(goal, steps, catalogue, forbidden)
    others = (error for error in found if error.pointer not in told and error.code not in follow)
    return rejected("invalid_plan", (*errors, *others))


def _templated(project: Project) -> Answer:
    kind = goal_type(project.goal)
    if project.only_documents and kind is not GoalType.OBSERVATION:
        kind = GoalType.GENERIC  # documentation is neither designed nor tested
    template = TEMPLATES[kind]
    if not project.files and any(row.type is StepType.PATCH for row in template.rows):
        return rejected("no_allowed_files", (_no_allowed_files(project.goal),))
    steps = _steps(project, template)
    if errors := _shortcomings(project, template, steps):
        return rejected("invalid_goal", errors)
    return Draft(steps, _document(project, kind, template))


def _shortcomings(project: Project, template: Template, steps: tuple[PlannedStep, ...]) -> tuple[FieldError, ...]:
    """Say what the goal lacks, in terms of the goal, where the validator could only speak of the steps."""
    limit = max_steps(project.goal)
    if len(steps) > limit >= len(template.rows):
        sentence = (
            f"{len(project.files)} files make {len(steps)} steps, and the limit is {limit}: raise limits.max_steps"
        )
        return (field_error("/allowed_files", "too_many_files", f"{sentence} or allow fewer files."),)
    if any(RISK[step.risk_level].tests_required and not step.verify_tools for step in steps):
        sentence = "No verification is known for these files: set context.test_command or context.language."
        return (field_error("/context/test_command", "no_verification", sentence),)
    return ()


def _steps(project: Project, template: Template) -> tuple[PlannedStep, ...]:
    """Make the template's steps; what waits for a row that dropped out waits for what that row waited for."""
    steps: list[PlannedStep] = []
    ends: dict[str, tuple[str, ...]] = {}
    for row in template.rows:
        waits = tuple(dict.fromkeys(end for name in row.after for end in ends[name]))
        made = _of_row(project, row, waits)
        steps += made
        ends[row.step_id] = (made[-1].step_id,) if made else waits
    return tuple(steps)


def _of_row(project: Project, row: Row, waits: tuple[str, ...]) -> tuple[PlannedStep, ...]:
    files = having(project.files, *row.roles)
    if row.or_every and not files:
        files = project.files
    if row.type is StepType.PATCH:
        return _patches(project, row, _pieces(row, files), waits)
    tools = project.check(row.check, files)
    if (row.roles and not files) or (row.check is Check.FOCUSED and not tools):
        return ()
    kind = StepType.REVIEW if row.type is StepType.TEST and not tools else row.type  # no tool: somebody must look
    return (_step(project, row, row.step_id, kind, tools=tools, depends_on=waits),)


@dataclass(frozen=True, slots=True)
class _Piece:
    """The files of one step of a row that is split, and its phase where it has two."""

    files: tuple[str, ...]
    phase: str | None = None


def _pieces(row: Row, files: tuple[str, ...]) -> tuple[_Piece, ...]:
    """Split a row's files by what the risk of each allows; riskier ones go apart and first, so that tests stay last."""
    level_of = {path: raised(row.risk, (path,)).level for path in files}
    pieces: list[_Piece] = []
    for level in reversed(tuple(RISK)):
        for part in chunks([path for path in files if level_of[path] is level], RISK[level].max_files):
            pieces += [_Piece(part, phase) for phase in (TEMPLATE_PHASES if RISK[level].two_phase else (None,))]
    return tuple(pieces)


def _patches(project: Project, row: Row, pieces: tuple[_Piece, ...], waits: tuple[str, ...]) -> tuple[PlannedStep, ...]:
    """Make one step a piece, one after the other; only the last can make the tests pass, so only it must."""
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
    risk = raised(RiskLevel.LOW if only_documents(files) else row.risk, files)
    return PlannedStep(
        step_id=step_id,
        title=row.title,
        intent=filled(row.intent, goal.goal, MAX_INTENT),
        allowed_files=files,
        verify=render(tools),
        risk_level=risk.level,
        controller_task_spec=ControllerTaskSpec(type=kind, target_file=files[0] if files else None, hint=row.hint),
        mode=mode,
        success_criteria=row.success,
        depends_on=depends_on,
        rollback_hint=ROLLBACK if files else None,
        guidance=told(risk, guidance(goal.constraints)),
        verify_tools=tools,
        queue=goal.queue,
        estimate=estimate(mode),
    )


def _document(project: Project, kind: GoalType, template: Template) -> dict[str, object]:
    return {
        "type": kind.value,
        "language": project.language.name if project.language else None,
        "assumptions": list(template.assumptions),
        "constraints": [*template.constraints, *project.goal.constraints],
    }


def _no_allowed_files(goal: Goal) -> FieldError:
    why = "Its globs match no file of context.files" if goal.allowed_files else "A step that patches needs them"
    return field_error("/allowed_files", "no_allowed_files", f"{why}: set allowed_files to the files that may change.")
