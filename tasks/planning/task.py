"""The strategy of the kind `task`: a sentence and a repository's context become steps by template (seed 001).

Supplied steps are taken as they are; either way the validator has the last word.
"""

from __future__ import annotations

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.errors import UnknownCommand
from tasks.planning import supplied
from tasks.planning.catalogue import CATALOGUE, render
from tasks.planning.draft import Answer, Draft
from tasks.planning.files import chunks, having
from tasks.planning.goal_type import GoalType, goal_type
from tasks.planning.paths import Expanded, expand_globs
from tasks.planning.project import Project, only_documents
from tasks.planning.templates import TEMPLATES, Check, Row, Template
from tasks.planning.text import MAX_INTENT, filled, guidance
from tasks.policy.risk import RISK, estimate
from tasks.policy.validation import max_steps, rejected, validate

ROLLBACK = "Restore the files of this step from the commit that the attempt started from."


def draft(goal: Goal) -> Answer:
    """Answer `goal` with the steps it brings or with those of the template for its type. Pure."""
    allowed = expand_globs(goal.allowed_files, goal.context.files)
    test, untested = _test_command(goal)
    if errors := allowed.errors + untested:
        return rejected("invalid_goal", errors)
    if goal.steps is not None:
        return _supplied(goal, allowed)
    return _templated(Project.of(goal, allowed.files, test))


def _test_command(goal: Goal) -> tuple[VerifyTool | None, tuple[FieldError, ...]]:
    command = (goal.context.test_command or "").strip()
    if not command:
        return None, ()
    try:
        return CATALOGUE.match(command), ()
    except UnknownCommand as error:
        return None, (_error("/context/test_command", "unknown_test_command", str(error)),)


def _supplied(goal: Goal, allowed: Expanded) -> Answer:
    steps, errors = supplied.convert(goal, goal.steps or ())
    if not allowed.files and any(step.controller_task_spec.type is StepType.PATCH for step in steps):
        errors = (_no_allowed_files(goal), *errors)
    if not errors:
        return Draft(steps)
    told = {error.pointer for error in errors}
    follow = set() if allowed.files else {"outside_allowlist"}  # of every file, where none is allowed
    others = (error for error in validate(goal, steps) if error.pointer not in told and error.code not in follow)
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
        return (_error("/allowed_files", "too_many_files", f"{sentence} or allow fewer files."),)
    if any(RISK[step.risk_level].tests_required and not step.verify_tools for step in steps):
        sentence = "No verification is known for these files: set context.test_command or context.language."
        return (_error("/context/test_command", "no_verification", sentence),)
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
        return _patches(project, row, chunks(files, RISK[row.risk].max_files), waits)
    tools = project.check(row.check, files)
    if (row.roles and not files) or (row.check is Check.FOCUSED and not tools):
        return ()
    kind = StepType.REVIEW if row.type is StepType.TEST and not tools else row.type  # no tool: somebody must look
    return (_step(project, row, row.step_id, kind, tools=tools, depends_on=waits),)


def _patches(
    project: Project, row: Row, pieces: tuple[tuple[str, ...], ...], waits: tuple[str, ...]
) -> tuple[PlannedStep, ...]:
    """Make one step a piece, one after the other; only the last can make the tests pass, so only it must."""
    steps: list[PlannedStep] = []
    for number, files in enumerate(pieces, 1):
        last = number == len(pieces)
        step_id = row.step_id if len(pieces) == 1 else f"{row.step_id}-{number}"
        check = Check.NONE if only_documents(files) else row.check if last else Check.QUICK
        tools = project.check(check, files)
        depends_on = (steps[-1].step_id,) if steps else waits
        steps.append(_step(project, row, step_id, StepType.PATCH, files=files, tools=tools, depends_on=depends_on))
    return tuple(_numbered(steps))


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
    return PlannedStep(
        step_id=step_id,
        title=row.title,
        intent=filled(row.intent, goal.goal, MAX_INTENT),
        allowed_files=files,
        verify=render(tools),
        risk_level=RiskLevel.LOW if only_documents(files) else row.risk,
        controller_task_spec=ControllerTaskSpec(type=kind, target_file=files[0] if files else None, hint=row.hint),
        mode=mode,
        success_criteria=row.success,
        depends_on=depends_on,
        rollback_hint=ROLLBACK if files else None,
        guidance=guidance(goal.constraints),
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
    return _error("/allowed_files", "no_allowed_files", f"{why}: set allowed_files to the files that may change.")


def _error(pointer: str, code: str, message: str) -> FieldError:
    return FieldError(pointer=pointer, code=code, message=message)
