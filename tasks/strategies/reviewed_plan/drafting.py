"""How a goal of this kind begins: its input judged, then the first rows of the workflow."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.review import ReviewedPlanInput, ReviewState, Workflow
from schemas.review_plan import Plan
from tasks.base.errors import UnknownCommand
from tasks.rules.strategy import Answer, Draft, Setting
from tasks.rules.validation import rejected
from tasks.strategies.drafting.project import Project, keep_permitted, only_documents
from tasks.strategies.reviewed_plan.gate import schedule_faults, schedule_of
from tasks.strategies.reviewed_plan.implementing import CODE_LEVEL
from tasks.strategies.reviewed_plan.opening import opened, unfit, unplannable
from tasks.strategies.reviewed_plan.turn import Turn
from tasks.strategies.reviewed_plan.workflow import FIRST, go
from tasks.text.fields import fit
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import Catalogue


def draft(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    """Answer a goal with the first step of its workflow, or with everything that keeps it from beginning. Pure."""
    given = goal.reviewed_plan or ReviewedPlanInput()
    allowed = expand_globs(goal.allowed_files, goal.context.files, forbidden=setting.forbidden)
    project = _project(goal, allowed.files, catalogue)
    errors = (*allowed.errors, *_errors(goal, given, allowed.files, project))
    if errors:
        return rejected("invalid_goal", errors)
    try:
        document = opened(goal, given, setting.now)
    except ValidationError as error:
        return rejected("invalid_plan", tuple(_unclean(error)))
    if found := tuple(_plan_errors(given, document.plan, allowed.files)):
        return rejected("invalid_plan", found)
    state = _state(given, project)
    turn = go(Turn(goal, allowed.files, catalogue, setting.now, state, document), FIRST[given.workflow])
    made = turn.unfolding("")
    return Draft(turn.steps, made.document, state=made.state, phases=made.phases)


def _project(goal: Goal, allowed: tuple[str, ...], catalogue: Catalogue) -> Project | str:
    """Read the project; a sentence where its test command is not in the catalogue."""
    command = (goal.context.test_command or "").strip()
    try:
        return Project.of(goal, allowed, catalogue.match(command) if command else None, catalogue)
    except UnknownCommand as error:
        return str(error)


def _state(given: ReviewedPlanInput, project: Project | str) -> ReviewState:
    language = None if isinstance(project, str) or project.language is None else project.language.name
    return ReviewState(
        workflow=given.workflow,
        schedule=schedule_of(given.severity_schedule),
        cap=given.convergence_cap,
        max_iterations=given.max_iterations,
        language=language,
    )


def _errors(
    goal: Goal, given: ReviewedPlanInput, allowed: tuple[str, ...], project: Project | str
) -> Iterator[FieldError]:
    """Say what the goal lacks for the part of the workflow that it asks for."""
    if isinstance(project, str):
        yield field_error("/context/test_command", "unknown_test_command", project)
    for fault in schedule_faults(schedule_of(given.severity_schedule)):
        yield field_error("/reviewed_plan/severity_schedule", "invalid_schedule", fault)
    if goal.steps is not None:
        yield field_error(
            "/steps", "steps_not_taken", "This kind makes its own steps; supply reviewed_plan.plan instead."
        )
    if given.workflow is Workflow.EXECUTE and given.plan is None:
        yield field_error("/reviewed_plan/plan", "no_plan", "To execute takes a plan: set reviewed_plan.plan.")
    if given.workflow is Workflow.PLAN:
        return
    if not allowed:
        sentence = "To execute takes files: set allowed_files to the files that may change."
        yield field_error("/allowed_files", "no_allowed_files", sentence)
    elif isinstance(project, Project) and not project.tests and not only_documents(allowed):
        sentence = "No verification is known for these files: set context.test_command or context.language."
        yield field_error("/context/test_command", "no_verification", sentence)
    elif isinstance(project, Project) and not only_documents(allowed):
        yield from _forbidden(project)


def _forbidden(project: Project) -> Iterator[FieldError]:
    """Say that no step that changes code may run the tests: told here, not when the whole plan is made."""
    if not keep_permitted(project.tests, project.catalogue, CODE_LEVEL):
        sentence = f"The tests need a higher risk than that of a step that changes code, which is {CODE_LEVEL}."
        yield field_error("/context/test_command", "tool_needs_risk", sentence)


def _plan_errors(given: ReviewedPlanInput, plan: Plan, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    """Say why the plan that was supplied cannot be carried out, or not be worked on."""
    pointer = "/reviewed_plan/plan"
    if given.workflow is Workflow.EXECUTE:
        yield from unfit(plan, allowed, pointer)
    elif plan.frozen_at is not None:
        yield field_error(
            f"{pointer}/frozen_at", "plan_frozen", "A frozen plan is not planned any further: execute it."
        )
    elif given.plan is not None:
        yield from unplannable(plan, allowed, pointer)


def _unclean(error: ValidationError) -> Iterator[FieldError]:
    """Say which texts of a supplied plan do not fit once they are clean: most often nothing is left of them."""
    for each in error.errors():
        place = "/".join(fit(str(name), 100) for name in each["loc"])
        yield field_error(f"/reviewed_plan/plan/{place}", "invalid_plan", f"Once cleaned: {each['msg']}.")
