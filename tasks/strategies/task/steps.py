"""The steps of a task: those of its template, filled in with the goal's files, and the one that asks for a draft."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schemas.base import MODE_OF_TYPE, Mode, RiskLevel, StepType
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.judging import base_judges
from tasks.rules.risk import ROLLBACK, assess_declared, estimate, explain_raise
from tasks.strategies.drafting import cycle
from tasks.strategies.drafting.answers import connect_answers
from tasks.strategies.drafting.focus import TRACED
from tasks.strategies.drafting.pieces import TEMPLATE_PHASES, join_pieces
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.strategies.drafting.repeats import only_repeats
from tasks.strategies.drafting.scope import Scope, is_for, scopes
from tasks.strategies.task.templates import Finding, Row, Template
from tasks.text.fields import MAX_INTENT, fill, fit, guidance
from tasks.toolchain.catalogue import once
from tasks.toolchain.command_lines import render
from tasks.toolchain.files import Role, files_of, role_of

DRAFT_ID = "draft-plan"
VERIFY_ID = "verify-plan"
VERIFIED = "What verifies the step passes."
REVIEWED = "A person has read the change, which no tool verifies."
MAX_ASKED = 400  # characters of the goal in the step that asks for its plan


def draft_step(goal: Goal, attempts: int) -> PlannedStep:
    """Return the step that asks a controller for the plan of `goal`."""
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
    """Return the steps of a template; a row makes no step if the goal already has its finding or it needs no work.

    A row that waits for such a row waits for the dependencies of that row.
    """
    steps: list[PlannedStep] = []
    ends: dict[str, tuple[str, ...]] = {}
    naming: set[str] = set()
    for row in template.rows:
        waits = tuple(dict.fromkeys(end for name in row.after for end in ends[name]))
        before = steps[-1] if steps and waits == (steps[-1].step_id,) else None
        added = [] if _is_known(project, row) else _steps_of_row(project, row, waits, before)
        steps += added
        naming |= {step.step_id for step in added if row.names_files}
        ends[row.step_id] = (added[-1].step_id,) if added else waits
    return connect_answers(_asking_for_places(steps, naming))


def _asking_for_places(steps: Sequence[PlannedStep], naming: Collection[str]) -> list[PlannedStep]:
    """Return the steps, and let the last file-naming step before the first change also name the likely places.

    It does so only if the changes could be in several files.
    """
    first = next((at for at, step in enumerate(steps) if step.mode is Mode.PATCH), 0)
    asked = next((step.step_id for step in reversed(steps[:first]) if step.step_id in naming), None)
    changing = [step for step in steps if step.mode is Mode.PATCH]
    open_to_choice = any(step.allowed_patterns for step in changing) or (
        len({path for step in changing for path in step.allowed_files}) > 1
    )
    return [
        step.model_copy(update={"finds_places": True}) if open_to_choice and step.step_id == asked else step
        for step in steps
    ]


def _is_known(project: Project, row: Row) -> bool:
    """Return whether the goal already contains the finding of a row: the place or the cause of a failure.

    A file named after the failing test is only a likely place, not a known cause. A file in a trace is a known cause.
    """
    if row.finds is None:
        return False
    likely = [place for place in project.focus if role_of(place.path) is not Role.TEST]
    if row.finds is Finding.PLACE:
        return len(likely) == 1
    return any(place.why == TRACED for place in (likely if len(likely) == 1 else project.focus))


def _steps_of_row(project: Project, row: Row, waits: tuple[str, ...], before: PlannedStep | None) -> list[PlannedStep]:
    """Return the steps of a row: one, or a sequence with one for each part of its files.

    `before` is the step directly before the row. A row that would only repeat its verification makes no step.
    """
    roles, files = row.roles, files_of(project.files, *row.roles)
    if row.or_every and not (files or any(is_for(each, roles, project.files) for each in project.patterns)):
        roles, files = tuple(Role), project.files
    files = tuple(sorted(files, key=lambda path: role_of(path) not in row.first)) if row.first else files
    if row.type is not StepType.PATCH:
        if row.check is Check.NEW_TESTS and project.patterns:  # globs name no new tests: all tests run later
            files = tuple(path for path in files if path in project.named)
        tools = project.check(row.check, files)
        if (row.roles and not files) or (row.check is Check.FOCUSED and not tools):
            return []
        if before and _is_left_out(project, row, tools, before):
            return []
        kind = StepType.REVIEW if row.type is StepType.TEST and not tools else row.type  # no tool: review it
        return [_step(project, row, kind, tools, waits)]
    parts = scopes(project, roles, files, row.risk, spares_tests=row.spares_tests)
    steps: list[PlannedStep] = []
    for number, part in enumerate(parts, 1):
        tools, added = _tools_of_part(project, row, files, part, last=number == len(parts))
        waits = (steps[-1].step_id,) if steps else waits
        step = _step(project, row, StepType.PATCH, tools, waits, part, (number, len(parts)))
        checks = project.checks_after if part.is_open and tools else {}
        more = {name: value for name, value in (("quick_checks", added), ("checks_after", checks)) if value}
        steps.append(step.model_copy(update=more) if more else step)
    return join_pieces(steps)


def _is_left_out(project: Project, row: Row, tools: tuple[VerifyTool, ...], before: PlannedStep) -> bool:
    """Return whether a row would only repeat the verification of the change directly `before` it.

    A row that runs more than the goal's tests or new tests stays if checks of changed files follow the change. It also
    stays if tests of the base judge all tests.
    """
    if row.type is not StepType.TEST or not only_repeats(tools, before):
        return False
    if row.check in (Check.FOCUSED, Check.NEW_TESTS):
        return True
    is_judged = row.check is Check.TESTS and base_judges(project.goal) is not None
    return not (before.checks_after or is_judged)


def _tools_of_part(
    project: Project, row: Row, files: tuple[str, ...], part: Scope, *, last: bool
) -> tuple[tuple[VerifyTool, ...], tuple[str, ...]]:
    """Return the tools that verify one part of the `files` that a row changes, and ids of tools that nothing requests.

    Later steps of mode `test` judge all parts together, so no tool here judges the changes of other parts. The changes
    of an open part are not known. The goal's failing tests verify it, else all tests, and a later step checks the
    files.
    """
    if row.roles == (Role.DOCUMENT,) or (part.files and only_documents(part.files)):
        return (), ()
    if part.is_open:
        usual = project.check(Check.FOCUSED, ()) or project.tests
        special = project.check(row.check, part.files) if row.check is Check.BUILD else ()
        return special or usual or project.own_checks(part.files, whole=False), ()
    whole = last and not {path for path in files if path not in part.files and not only_documents((path,))}
    quick, added = project.quick_checks(part.files, whole=whole)
    if row.check is Check.OWN or (row.check is not Check.NEW_TESTS and not whole):
        return project.own_checks(part.files, whole=whole, others=quick), added
    usual = project.check(row.check, part.files)
    asked = {tool.tool for tool in usual}
    return once((*quick, *usual)), tuple(e for e in added if e not in asked)


def _step(
    project: Project,
    row: Row,
    kind: StepType,
    tools: tuple[VerifyTool, ...],
    waits: tuple[str, ...],
    part: Scope | None = None,
    place: tuple[int, int] = (1, 1),  # of the part among those of its row
) -> PlannedStep:
    mode = MODE_OF_TYPE[kind]
    goal = project.goal
    number, count = place
    files, phase = (part.files, part.phase) if part else ((), None)
    documents = row.roles == (Role.DOCUMENT,) if part and not files else only_documents(files)
    risk = assess_declared(RiskLevel.LOW if documents else row.risk, files)
    level = part.level if part and not documents else risk.level
    hints = (TEMPLATE_PHASES[phase] if phase else None, row.hint)
    return PlannedStep(
        step_id=f"{row.step_id}-{number}" if count > 1 else row.step_id,
        title=f"{row.title} ({number} of {count})" if count > 1 else row.title,
        intent=fill(row.intent, goal.goal, MAX_INTENT),
        allowed_files=files,
        verify=render(tools),
        risk_level=level,
        controller_task_spec=ControllerTaskSpec(
            type=kind, target_file=files[0] if files else None, hint=" ".join(filter(None, hints)) or None
        ),
        mode=mode,
        success_criteria=_criteria(row, kind, tools),
        depends_on=waits,
        rollback_hint=ROLLBACK if part else None,
        phase=phase,
        guidance=explain_raise(risk, guidance(goal.constraints)),
        verify_tools=tools,
        queue=goal.queue,
        estimate=estimate(mode),
        allow_empty=row.allow_empty,
        allowed_patterns=part.patterns if part else (),
        excluded_patterns=part.excluded if part else (),
        focus=part.focus if part else (),
        requires=part.requires if part else (),
    )


def _criteria(row: Row, kind: StepType, tools: tuple[VerifyTool, ...]) -> str:
    """Return the success criterion of a step: its tools pass, it is reviewed, or the condition of its row is true."""
    if tools:
        return VERIFIED
    return REVIEWED if kind is StepType.REVIEW else row.success
