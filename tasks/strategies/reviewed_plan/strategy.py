"""The six functions of a reviewed plan, in the order of its life."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from schemas.base import FailureCategory, Mode, StepState
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.kinds.reviewed_plan import ReviewedPlanInput, ReviewState, StepEnd, Workflow
from schemas.kinds.reviewed_plan_files import GateVerdict, Plan
from schemas.kinds.reviewed_plan_strict import plain_answer, strict_answer
from schemas.wording import expected
from tasks.memory.alike import results_for_drafters
from tasks.rules import strategy
from tasks.rules.permission import expand_allowed
from tasks.rules.strategy import Answer, Draft, End, Expansion, LivePlan, Setting
from tasks.rules.validation import reject
from tasks.strategies.drafting.project import NO_VERIFICATION, Project, keep_permitted, read_test_command
from tasks.strategies.reviewed_plan.decision import ask_about_work, continue_loop, overrule, read_decision
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
from tasks.strategies.reviewed_plan.prompt import prompt_of
from tasks.strategies.reviewed_plan.rows import WorkflowRow
from tasks.strategies.reviewed_plan.state import Turn, begin_state, project_in, state_of, turn_of
from tasks.strategies.reviewed_plan.workflow import PARTS, ROWS, go
from tasks.text.fields import fit
from tasks.text.json_in_prose import find_object
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, catalogue_of

WORKFLOW = strategy.Workflow(
    "002",
    "a plan is designed, reviewed, frozen and carried out by roles",
    "reviewed_plan",
    {"plan": PARTS[Workflow.PLAN], "execute": PARTS[Workflow.EXECUTE]},
)
FAILED, SKIPPED, DONE = StepState.FAILED.value, StepState.SKIPPED.value, StepState.DONE.value
MAX_UNTOUCHED = 5  # reported files of one step
MAX_WHY = 300  # characters of the reason why a step failed
MAX_REFUSAL, MAX_ALLOWED = 480, 240  # characters: a suggestion has at most 500


def draft(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    """Return the answer to a goal: a plan with the first step of its workflow, or a rejection with all errors. Pure."""
    given = goal.reviewed_plan or ReviewedPlanInput()
    allowed = expand_allowed(goal.allowed_files, goal.context.files, setting.forbidden)
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
    state = begin_state(given, project).model_copy(update={"memory": tuple(results_for_drafters(setting.memory))})
    turn = Turn(goal, allowed.files, catalogue, setting.now, state, document)
    first = go(turn, PARTS[turn.state.workflow][0]).expansion("")
    return Draft(first.steps, first.document, state=first.state, phases=first.phases)


def input_for(live: LivePlan, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a step of the current row: its documents, and a prompt if an agent has to answer. Pure."""
    state = state_of(live)
    row = ROWS.get(state.row)
    if row is None or facts.get("step_id") not in state.open:
        return {}
    turn = turn_of(live, catalogue_of(live.tools), state)
    step = OpenStep(state, turn.document, str(facts["step_id"]), row.phase)
    material = material_of(row.brief, step, lambda: project_in(turn))
    if row.schema is None or facts["mode"] == Mode.TEST:
        return material
    schema = row.schema(turn.plan)
    asked = {"prompt": prompt_of(row.brief, live.goal, facts, material, state.memory), "schema": schema}
    return {**asked, "strict_schema": strict_answer(schema), **material}


def refusal(live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | None:
    """Return why an answer cannot be used, by applying it to a copy; None if it can be used."""
    state = state_of(live)
    row = ROWS.get(state.row)
    if row is None or facts.get("step_id") not in state.open:
        return None
    if not row.reads_answer:
        writes = isinstance(output, dict) and "operations" in output
        return "frozen: plan.json is not written while it is carried out" if writes else None
    try:
        turn = turn_of(live, CATALOGUE, state)
        row.leave(turn, _read(turn, row, output))
    except AnswerRefused as refused:
        return _tell(refused)
    return None


def advance(live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
    """Record the end of a step; after the last step of the current row, the workflow goes to the next row."""
    state = state_of(live)
    if end.facts.get("inserted_by"):
        return _note_mend(turn_of(live, catalogue, state), end)
    row = ROWS.get(state.row)
    if row is None or end.step_id not in state.open:
        return None
    state = _note_end(state, end)
    why = f"{end.step_id} is {end.state}"
    is_work = row.again is not None
    if state.open and (is_work or not state.failed):
        return Expansion(state.model_dump(mode="json"), live.document, why)
    turn = turn_of(live, catalogue, state)
    if state.failed:  # no row follows a step that failed for good: report the plan's progress
        turn = tally(turn)
        report = make_report(turn.document, "BLOCKED", summary=f"{state.row} did not succeed.")
        turn = turn.with_document(report=report)
        return (ask_about_work(turn) if is_work else _give_up(turn, row, end)).expansion(why)
    turn = replace(turn, unreviewed=row.reads_answer and end.state == SKIPPED)
    try:
        turn, following = row.leave(turn, _read(turn, row, end.output))
    except AnswerRefused:  # no row can use this answer, although it was judged before: the workflow decides without it
        turn, following = row.leave(replace(turn, unreviewed=True), None)
    return go(turn, following).expansion(why)


def answer(live: LivePlan, value: Any, catalogue: Catalogue) -> Expansion | str:
    """Continue the plan as a person decided about a gate or failed work; return a sentence for an invalid answer."""
    state = state_of(live)
    turn = turn_of(live, catalogue, state)
    if state.work_asked:
        return _answer_about_work(turn, value)
    if state.asked is None:
        return "Nothing is asked."
    phase, row = state.asked, ROWS[state.row]
    said = read_decision(value, turn.loop(phase).continued)
    if isinstance(said, str):
        return said
    why = f"A person decided about {row.brief.name}: {said.decision}"
    if said.decision == "stop":
        return _stop(turn, fit(said.reason, 500)).expansion(why)
    if said.decision == "continue":
        skipped = turn.document.gate_history[-1].verdict is GateVerdict.SKIPPED
        back = f"{phase}-qr" if skipped else row.brief.back
        turn = go(continue_loop(turn, phase), back)
    else:
        turn = go(*row.leave(overrule(turn, phase, said.reason), None))
    return turn.expansion(why, replaces=True)  # a review may have failed for good before


def _answer_about_work(turn: Turn, value: Any) -> Expansion | str:
    """Return the expansion that a person decided after steps failed: try these again, go on without them, or halt."""
    row, said = ROWS[turn.state.row], read_decision(value, turn.state.tries)
    if isinstance(said, str):
        return said
    why, reason = f"A person decided about {row.brief.name}: {said.decision}", fit(said.reason, 500)
    if said.decision == "stop" or row.again is None:
        return _stop(turn, reason).expansion(why)
    if said.decision == "continue":
        return row.again(turn, reason).expansion(why, replaces=True)
    turn = turn.with_phase(row.brief.name, f"accepted by a person: {reason}")
    turn = turn.with_document(report=None).with_state(work_asked=False, open=(), ended=(), failed=False)
    return go(*row.leave(turn, None)).expansion(why, replaces=True)


def stuck(live: LivePlan, catalogue: Catalogue) -> Expansion | None:  # noqa: ARG001 (the protocol's)
    """Return None: a plan whose step failed for good halts, and its report already states this."""
    return None


def _read(turn: Turn, row: WorkflowRow, output: Any) -> Any:
    """Return the JSON object in a role's answer, in plain form if it came in the strict form.

    An answer without a JSON object is returned unchanged.
    """
    with suppress(ValueError):
        output = find_object(output, row.holds)
    return plain_answer(output, row.schema(turn.plan)) if row.schema else output


def _tell(refused: AnswerRefused) -> str:
    """Return why an answer was refused, with the names that it may use, short enough for a suggestion."""
    if not refused.allowed:
        return str(refused)
    allowed = fit(refused.allowed, MAX_ALLOWED)
    return f"{fit(str(refused), MAX_REFUSAL - len(allowed))}. Allowed: {allowed}"


def _give_up(turn: Turn, row: WorkflowRow, end: End) -> Turn:
    """Halt the plan with the faults of the role's last answer; if it is a review of the execution, a person decides."""
    if not row.reads_answer:
        return turn
    if row.brief.name in PARTS[Workflow.EXECUTE] and row.phase is not None:
        return go(*row.leave(replace(turn, unreviewed=True), None))
    last, attempts = end.failure or {}, end.attempt or 0
    message = last.get("suggestion") or last.get("trace") or str(last.get("category"))
    refused = last.get("category") == FailureCategory.OUTPUT_REFUSED
    code = message.partition(":")[0] if refused else str(last.get("category")).lower()
    errors = [field_error("/output", fit(code, 50), message).model_dump()]
    reason = fit(f"{end.step_id} gave no answer of use in {attempts} attempts: {message}", MAX_REFUSAL)
    counted = {"value": attempts, "limit": attempts, "limit_name": "max_attempts"}
    evidence = {"step_id": end.step_id, "attempts": attempts, "errors": errors, "last_error": end.failure, **counted}
    return replace(turn, halt=("planning_failed", reason, evidence))


def _errors(goal: Goal, given: ReviewedPlanInput, project: Project, *, testable: bool) -> Iterator[FieldError]:
    """Yield an error for everything that the goal lacks for its part of the workflow."""
    for fault in schedule_faults(schedule_of(given.severity_schedule)):
        yield field_error("/reviewed_plan/severity_schedule", "invalid_schedule", fault)
    if goal.steps is not None:
        sentence = "This kind makes its own steps; supply reviewed_plan.plan instead."
        yield field_error("/steps", "steps_not_taken", sentence)
    if given.review_first and given.workflow is not Workflow.EXECUTE:
        sentence = "review_first is for the workflow execute; plan and both have their reviews."
        yield field_error("/reviewed_plan/review_first", "only_to_execute", sentence)
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
        yield field_error("/context/test_command", "no_verification", NO_VERIFICATION)
    elif not keep_permitted(project.tests, project.catalogue, CODE_LEVEL):
        sentence = f"The tests need a higher risk than that of a step that changes code, which is {CODE_LEVEL}."
        yield field_error("/context/test_command", "tool_needs_risk", sentence)


def _plan_errors(given: ReviewedPlanInput, plan: Plan, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    """Yield why the supplied plan cannot be executed, or cannot be planned further."""
    pointer = "/reviewed_plan/plan"
    if given.workflow is Workflow.EXECUTE and not given.review_first:
        if given.plan is not None and plan.frozen_at is None:
            sentence = "No review has frozen this plan: set reviewed_plan.review_first to true to have it reviewed."
            yield field_error(f"{pointer}/frozen_at", "plan_not_frozen", sentence)
        yield from execution_errors(plan, allowed, pointer)
    elif plan.frozen_at is not None:
        sentence = "A frozen plan is not planned or reviewed any further: execute it, without review_first."
        yield field_error(f"{pointer}/frozen_at", "plan_frozen", sentence)
    elif given.plan is not None:
        yield from planning_errors(plan, allowed, pointer)


def _cleaning_errors(error: ValidationError) -> Iterator[FieldError]:
    """Yield an error for each text of a supplied plan that sanitizing made invalid, mostly because it is now empty."""
    for each in error.errors():
        place = "/".join(fit(str(name), 100) for name in each["loc"])
        yield field_error(f"/reviewed_plan/plan/{place}", "invalid_plan", f"Once cleaned: {expected(each)}.")


def _note_end(state: ReviewState, end: End) -> ReviewState:
    files = end.facts.get("allowed_files", ()) if end.state == DONE else ()
    untouched = tuple(path for path in files if path not in end.touched_files)[:MAX_UNTOUCHED]
    note = StepEnd(step_id=end.step_id, state=end.state, untouched=untouched, why=_why(end))
    left = tuple(name for name in state.open if name != end.step_id)
    failed = state.failed or end.state == FAILED
    return state.model_copy(update={"open": left, "ended": (*state.ended, note), "failed": failed})


def _why(end: End) -> str | None:
    """Return why a step failed, in one line."""
    if end.state != FAILED or end.failure is None:
        return None
    tests = ", ".join(end.failure.get("failing_tests") or ())
    words = (end.failure.get("category"), tests, end.failure.get("suggestion") or end.failure.get("trace"))
    return fit(": ".join(filter(None, words)), MAX_WHY)


def _note_mend(turn: Turn, end: End) -> Expansion | None:
    """Record the files that a repair changed, since the next review has to cover them; None if it changed none."""
    allowed = end.facts["allowed_files"] if end.state == DONE else ()
    if not (changed := tuple(path for path in end.touched_files if path in allowed)):
        return None
    turn = note_mended(turn, changed)
    files = tuple(dict.fromkeys((*turn.state.mended, *changed)))
    return turn.with_state(mended=files).expansion(f"{end.step_id} changed {', '.join(changed)}")


def _stop(turn: Turn, reason: str) -> Turn:
    """Halt by a person's decision."""
    report = make_report(turn.document, "ABORTED", summary=reason)
    message = f"A person stopped the plan at {turn.state.row}. {reason}".strip()
    evidence = {"gate": turn.state.row, "decision": "stop"}
    return replace(
        turn.with_document(report=report).with_state(asked=None, work_asked=False),
        halt=("review_stopped", message, evidence),
    )
