"""The six verbs of a reviewed plan, in the order of its life."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from schemas.base import StepState
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.kinds.reviewed_plan import ReviewDocument, ReviewedPlanInput, ReviewState, StepEnd, Workflow
from schemas.kinds.reviewed_plan_files import GateVerdict, Plan
from tasks.rules.strategy import Answer, Draft, End, Expansion, LivePlan, Setting
from tasks.rules.validation import reject
from tasks.strategies.drafting.project import Project, keep_permitted, read_test_command
from tasks.strategies.reviewed_plan.decision import continue_loop, overrule, read_decision
from tasks.strategies.reviewed_plan.document import (
    execution_errors,
    make_report,
    note_mended,
    open_document,
    planning_errors,
    tally,
)
from tasks.strategies.reviewed_plan.gate import schedule_faults, schedule_of
from tasks.strategies.reviewed_plan.implementation import CODE_LEVEL
from tasks.strategies.reviewed_plan.material import OpenStep, material_of
from tasks.strategies.reviewed_plan.operations import AnswerRefused
from tasks.strategies.reviewed_plan.state import Turn, begin_state, state_of, turn_of
from tasks.strategies.reviewed_plan.workflow import PARTS, ROWS, go
from tasks.text.fields import fit
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import CATALOGUE, Catalogue

FAILED, SKIPPED, DONE = StepState.FAILED.value, StepState.SKIPPED.value, StepState.DONE.value
MAX_UNTOUCHED = 5  # files shown of one step


def draft(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    """Answer a goal with the first step of its workflow, or with its errors. Pure."""
    given = goal.reviewed_plan or ReviewedPlanInput()
    allowed = expand_globs(goal.allowed_files, goal.context.files, forbidden=setting.forbidden)
    test, unknown = read_test_command(goal, catalogue.match)
    project = Project.of(goal, allowed.files, test, catalogue)
    if errors := (*allowed.errors, *unknown, *_errors(goal, given, project, testable=not unknown)):
        return reject("invalid_goal", errors)
    try:
        document = open_document(goal, given, setting.now)
    except ValidationError as error:
        return reject("invalid_plan", tuple(_cleaning_errors(error)))
    if found := tuple(_plan_errors(given, document.plan, allowed.files)):
        return reject("invalid_plan", found)
    turn = Turn(goal, allowed.files, catalogue, setting.now, begin_state(given, project), document)
    first = go(turn, PARTS[given.workflow][0]).expansion("")
    return Draft(first.steps, first.document, state=first.state, phases=first.phases)


def input_for(live: LivePlan, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Hand a step of the open row the documents that it reads. Pure."""
    state = state_of(live)
    row = ROWS.get(state.row)
    if row is None or facts.get("step_id") not in state.open:
        return {}
    document = ReviewDocument.model_validate(live.document)
    return material_of(row.brief, OpenStep(state, document, str(facts["step_id"]), row.phase))


def refusal(live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say why an answer is no use, by trying what would come of it."""
    state = state_of(live)
    row = ROWS.get(state.row)
    if row is None or facts.get("step_id") not in state.open:
        return None
    if not row.reads_answer:
        writes = isinstance(output, dict) and "operations" in output
        return "frozen: plan.json is not written while it is carried out" if writes else None
    try:
        row.leave(turn_of(live, CATALOGUE, state), output)
    except AnswerRefused as refused:
        return str(refused)
    return None


def advance(live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
    """Note how a step ended; with the last of its row the workflow goes on."""
    state = state_of(live)
    if end.facts.get("inserted_by"):
        return _note_mend(turn_of(live, catalogue, state), end)
    row = ROWS.get(state.row)
    if row is None or end.step_id not in state.open:
        return None
    state = _note_end(state, end)
    why = f"{end.step_id} is {end.state}"
    if state.open and not state.failed:
        return Expansion(state.model_dump(mode="json"), live.document, why)
    turn = turn_of(live, catalogue, state)
    if state.failed:  # no row follows a step that failed for good: report how far the plan came
        turn = tally(turn)
        report = make_report(turn.document, "BLOCKED", summary=f"{state.row} did not succeed.")
        return turn.with_document(report=report).expansion(why)
    turn = replace(turn, unreviewed=row.reads_answer and end.state == SKIPPED)
    try:
        turn, following = row.leave(turn, end.output)
    except AnswerRefused:  # though it was judged before: nobody can use this answer, so what follows decides without it
        turn, following = row.leave(replace(turn, unreviewed=True), None)
    return go(turn, following).expansion(why)


def answer(live: LivePlan, value: Any, catalogue: Catalogue) -> Expansion | str:
    """Do as a person decided about a gate that does not pass."""
    state = state_of(live)
    if state.asked is None:
        return "Nothing is asked."
    turn, phase, row = turn_of(live, catalogue, state), state.asked, ROWS[state.row]
    said = read_decision(value, turn, phase)
    if isinstance(said, str):
        return said
    why = f"A person decided about {row.brief.name}: {said.decision}"
    if said.decision == "stop":
        return _stop(turn, fit(said.reason, 500)).expansion(why)
    if said.decision == "continue":
        skipped = turn.document.gate_history[-1].verdict is GateVerdict.SKIPPED
        back = f"{phase}-qr" if skipped else row.brief.back
        return go(continue_loop(turn, phase), back).expansion(why)
    return go(*row.leave(overrule(turn, phase, said.reason), None)).expansion(why)


def stuck(live: LivePlan, catalogue: Catalogue) -> Expansion | None:  # noqa: ARG001 (the protocol's)
    """Leave a plan whose step failed for good: its report has said so since."""
    return None


def _errors(goal: Goal, given: ReviewedPlanInput, project: Project, *, testable: bool) -> Iterator[FieldError]:
    """Say what the goal lacks for the part of the workflow that it asks for."""
    for fault in schedule_faults(schedule_of(given.severity_schedule)):
        yield field_error("/reviewed_plan/severity_schedule", "invalid_schedule", fault)
    if goal.steps is not None:
        sentence = "This kind makes its own steps; supply reviewed_plan.plan instead."
        yield field_error("/steps", "steps_not_taken", sentence)
    if given.workflow is Workflow.EXECUTE and given.plan is None:
        yield field_error("/reviewed_plan/plan", "no_plan", "To execute takes a plan: set reviewed_plan.plan.")
    if given.workflow is Workflow.PLAN:
        return
    if not project.files:
        sentence = "To execute takes files: set allowed_files to the files that may change."
        yield field_error("/allowed_files", "no_allowed_files", sentence)
    elif not testable or project.only_documents:
        return
    elif not project.tests:
        sentence = "No verification is known for these files: set context.test_command or context.language."
        yield field_error("/context/test_command", "no_verification", sentence)
    elif not keep_permitted(project.tests, project.catalogue, CODE_LEVEL):
        sentence = f"The tests need a higher risk than that of a step that changes code, which is {CODE_LEVEL}."
        yield field_error("/context/test_command", "tool_needs_risk", sentence)


def _plan_errors(given: ReviewedPlanInput, plan: Plan, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    """Say why the supplied plan cannot be carried out, or not be worked on."""
    pointer = "/reviewed_plan/plan"
    if given.workflow is Workflow.EXECUTE:
        yield from execution_errors(plan, allowed, pointer)
    elif plan.frozen_at is not None:
        sentence = "A frozen plan is not planned any further: execute it."
        yield field_error(f"{pointer}/frozen_at", "plan_frozen", sentence)
    elif given.plan is not None:
        yield from planning_errors(plan, allowed, pointer)


def _cleaning_errors(error: ValidationError) -> Iterator[FieldError]:
    """Say which texts of a supplied plan do not fit, most often empty, once clean."""
    for each in error.errors():
        place = "/".join(fit(str(name), 100) for name in each["loc"])
        yield field_error(f"/reviewed_plan/plan/{place}", "invalid_plan", f"Once cleaned: {each['msg']}.")


def _note_end(state: ReviewState, end: End) -> ReviewState:
    files = end.facts.get("allowed_files", ()) if end.state == DONE else ()
    untouched = tuple(path for path in files if path not in end.touched_files)[:MAX_UNTOUCHED]
    note = StepEnd(step_id=end.step_id, state=end.state, untouched=untouched)
    left = tuple(name for name in state.open if name != end.step_id)
    failed = state.failed or end.state == FAILED
    return state.model_copy(update={"open": left, "ended": (*state.ended, note), "failed": failed})


def _note_mend(turn: Turn, end: End) -> Expansion | None:
    """Note what a mend changed of the open wave: the next review has to cover it."""
    allowed = end.facts["allowed_files"] if end.state == DONE else ()
    if not (changed := tuple(path for path in end.touched_files if path in allowed)):
        return None
    turn = note_mended(turn, changed)
    files = tuple(dict.fromkeys((*turn.state.mended, *changed)))
    return turn.with_state(mended=files).expansion(f"{end.step_id} changed {', '.join(changed)}")


def _stop(turn: Turn, reason: str) -> Turn:
    """Halt by a person's word."""
    report = make_report(turn.document, "ABORTED", summary=reason)
    message = f"A person stopped the plan at {turn.state.row}. {reason}".strip()
    evidence = {"gate": turn.state.row, "decision": "stop"}
    return replace(turn.with_document(report=report).with_state(asked=None), halt=("review_stopped", message, evidence))
