"""The strategy of the kind `reviewed_plan`: its six verbs in the order of a plan's life.

Whatever a role answers is judged before it counts (`refusal`), and applied as a whole when its step ends (`advance`).
A review that finds faults is no failure: it sends the work back as new steps, until a person has to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from schemas.base import StepState
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.review import ReviewDocument, ReviewedPlanInput, ReviewState, StepEnd, Workflow
from schemas.review_plan import Plan
from schemas.review_qr import GateVerdict
from tasks.base.errors import UnknownCommand
from tasks.rules.strategy import Answer, Draft, End, Growth, Setting, Unfolding
from tasks.rules.validation import rejected
from tasks.strategies.drafting.project import Project, keep_permitted, only_documents
from tasks.strategies.reviewed_plan.decision import continued, decision_of, overruled
from tasks.strategies.reviewed_plan.document import opened, reported, tallied, unfit, unplannable
from tasks.strategies.reviewed_plan.gate import schedule_faults, schedule_of
from tasks.strategies.reviewed_plan.implementation import CODE_LEVEL
from tasks.strategies.reviewed_plan.material import READERS, View, fields_of
from tasks.strategies.reviewed_plan.operations import Refused
from tasks.strategies.reviewed_plan.rows import Row
from tasks.strategies.reviewed_plan.state import Turn, state_of
from tasks.strategies.reviewed_plan.workflow import FIRST, ROWS, go
from tasks.text.fields import fit
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import CATALOGUE, Catalogue

FAILED, SKIPPED, DONE = StepState.FAILED.value, StepState.SKIPPED.value, StepState.DONE.value
MAX_UNTOUCHED = 5  # files told of one step


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
    state = state_of(given, project)
    turn = go(Turn(goal, allowed.files, catalogue, setting.now, state, document), FIRST[given.workflow])
    made = turn.unfolding("")
    return Draft(turn.steps, made.document, state=made.state, phases=made.phases)


def input_for(growth: Growth, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Hand a step of the open row what it reads: enough to do it without anything of earlier steps. Pure."""
    state = ReviewState.model_validate(growth.state)
    row = ROWS.get(state.row)
    if row is None or facts.get("step_id") not in state.open:
        return {}
    brief = row.brief
    view = View(state, ReviewDocument.model_validate(growth.document), str(facts["step_id"]), brief.phase)
    found = {name: READERS[name](view) for name in brief.reads}
    writes = {name: fields_of(name) for name in brief.writes}
    role = brief.role.value if brief.role else None
    return {"role": role, "checklist": list(brief.checklist), **found} | ({"writes": writes} if writes else {})


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say why an answer is no use, by trying what would come of it."""
    state = ReviewState.model_validate(growth.state)
    row = ROWS.get(state.row)
    if row is None or facts.get("step_id") not in state.open:
        return None
    if not row.reads_answer:
        writes = isinstance(output, dict) and "operations" in output
        return "frozen: plan.json is not written while it is carried out" if writes else None
    try:
        _left(row, _turn(growth, CATALOGUE, state), output)
    except Refused as refused:
        return str(refused)
    return None


def advance(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Note how a step ended; with the last of its row the workflow goes on."""
    state = ReviewState.model_validate(growth.state)
    row = ROWS.get(state.row)
    if row is None or end.step_id not in state.open:
        return None
    state = _noted(state, end)
    if state.failed:
        return _blocked(_turn(growth, catalogue, state), end)
    why = f"{end.step_id} is {end.state}"
    if state.open:
        return Unfolding(state.model_dump(mode="json"), growth.document, why)
    turn = replace(_turn(growth, catalogue, state), unreviewed=row.reads_answer and end.state == SKIPPED)
    try:
        left, following = _left(row, turn, end.output)
    except Refused:  # it was judged before, so this is an answer that nobody can use: what follows decides without it
        left, following = _left(row, replace(turn, unreviewed=True), None)
    return go(left, following).unfolding(why)


def answer(growth: Growth, value: Any, catalogue: Catalogue) -> Unfolding | str:
    """Do as a person decided about a gate that does not pass."""
    state = ReviewState.model_validate(growth.state)
    if state.asked is None:
        return "Nothing is asked."
    turn, phase, row = _turn(growth, catalogue, state), state.asked, ROWS[state.row]
    said = decision_of(value, turn, phase)
    if isinstance(said, str):
        return said
    why = f"A person decided about {row.brief.name}: {said.decision}"
    if said.decision == "stop":
        return _stopped(turn, fit(said.reason, 500)).unfolding(why)
    if said.decision == "continue":
        skipped = turn.document.gate_history[-1].verdict is GateVerdict.SKIPPED
        back = f"{phase}-qr" if skipped else row.brief.back
        return go(continued(turn, phase), back).unfolding(why)
    return go(*_left(row, overruled(turn, phase, said.reason), None)).unfolding(why)


def stuck(growth: Growth, catalogue: Catalogue) -> Unfolding | None:  # noqa: ARG001 (the protocol's signature)
    """A step that failed for good ends the plan; the report has said so since it failed."""
    return None


def _project(goal: Goal, allowed: tuple[str, ...], catalogue: Catalogue) -> Project | str:
    """Read the project; a sentence where its test command is not in the catalogue."""
    command = (goal.context.test_command or "").strip()
    try:
        return Project.of(goal, allowed, catalogue.match(command) if command else None, catalogue)
    except UnknownCommand as error:
        return str(error)


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


def _turn(growth: Growth, catalogue: Catalogue, state: ReviewState) -> Turn:
    goal: Goal = growth.goal
    document = ReviewDocument.model_validate(growth.document)
    return Turn(goal, goal.allowed_files, catalogue, growth.now, state, document)


def _left(row: Row, turn: Turn, output: Any) -> tuple[Turn, str | None]:
    return row.leave(turn, output) if row.leave else (turn, None)


def _noted(state: ReviewState, end: End) -> ReviewState:
    files = end.facts.get("allowed_files", ()) if end.state == DONE else ()
    untouched = tuple(path for path in files if path not in end.touched_files)[:MAX_UNTOUCHED]
    note = StepEnd(step_id=end.step_id, state=end.state, untouched=untouched)
    left = tuple(name for name in state.open if name != end.step_id)
    failed = state.failed or end.state == FAILED
    return state.model_copy(update={"open": left, "ended": (*state.ended, note), "failed": failed})


def _blocked(turn: Turn, end: End) -> Unfolding:
    """Write down how far the plan came: no row follows a step that failed for good."""
    turn = tallied(turn)
    report = reported(turn.document, "BLOCKED", summary=f"{turn.state.row} did not succeed.")
    return turn.writing(report=report).unfolding(f"{end.step_id} is {end.state}")


def _stopped(turn: Turn, reason: str) -> Turn:
    """Halt by a person's word."""
    report = reported(turn.document, "ABORTED", summary=reason)
    told = f"A person stopped the plan at {turn.state.row}. {reason}".strip()
    evidence = {"gate": turn.state.row, "decision": "stop"}
    return replace(turn.writing(report=report).keeping(asked=None), halt=("review_stopped", told, evidence))
