"""Plans a task, and goes on from the step that asks for its draft: the six functions, in order of life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas.base import StepState, StepType
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.kinds.task import TASK_DRAFT_SCHEMA
from tasks.memory.alike import results_for_drafters
from tasks.rules.permission import expand_allowed
from tasks.rules.risk import RISK
from tasks.rules.strategy import (
    Answer,
    Consult,
    Draft,
    Drafted,
    End,
    Expansion,
    LivePlan,
    Phase,
    Rejected,
    Setting,
    Workflow,
)
from tasks.rules.validation import max_steps, reject, validate
from tasks.strategies.drafting.cycle import FAILED, NONE, QUEUE, DraftOptions, QueueCycle, Refusal, WorkerCycle, failure
from tasks.strategies.drafting.project import NO_VERIFICATION, Project, read_test_command
from tasks.strategies.drafting.reproduce import reproduce_first
from tasks.strategies.drafting.review import review_step
from tasks.strategies.drafting.scope import sample
from tasks.strategies.drafting.steps import room_for
from tasks.strategies.task import supplied
from tasks.strategies.task.document import describe_draft, describe_fallback, describe_template
from tasks.strategies.task.goal_type import GoalType, goal_type, is_about_tests, named_tests, task_kind
from tasks.strategies.task.plan_parser import ParsedDraft, parse
from tasks.strategies.task.prompt import prompt_of, repair_of
from tasks.strategies.task.state import TaskState, project_in
from tasks.strategies.task.steps import DRAFT_ID, draft_step, template_steps
from tasks.strategies.task.templates import TEMPLATES, WRITE_TESTS
from tasks.text.fields import fit
from tasks.text.forbidden_paths import Forbidden
from tasks.text.patterns import Expanded
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, catalogue_of
from tasks.toolchain.files import Role, role_of

NOWHERE = Setting()
WORKFLOW = Workflow(
    "001",
    "a sentence and its repository become a plan by template, or by a drafter",
    "goal",
    {task_kind(kind): tuple(row.step_id for row in template.rows) for kind, template in TEMPLATES.items()},
)
WORKING: Mapping[str, Any] = TaskState().model_dump(mode="json")  # the state once there is a plan
MAX_WHY = 300  # characters of the reason of an unusable draft


def draft(goal: Goal, catalogue: Catalogue = CATALOGUE, setting: Setting = NOWHERE) -> Answer:
    """Return the answer to `goal`: a plan with the goal's own steps, of its drafter or of a template; or a rejection.

    If the context names no failing tests, tests in the goal's sentence count as such.
    """
    named = () if goal.context.failing_tests or goal.steps is not None else named_tests(goal)
    if not named:
        return _draft(goal, catalogue, setting)
    meant = goal.model_copy(update={"context": goal.context.model_copy(update={"failing_tests": named})})
    answer = _draft(meant, catalogue, setting)
    return replace(answer, goal=meant) if isinstance(answer, Draft) else answer


def _draft(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    allowed = expand_allowed(goal.allowed_files, goal.context.files, setting.forbidden)
    test, unknown = read_test_command(goal, catalogue.match)
    if errors := allowed.errors + unknown:
        return reject("invalid_goal", errors)
    project = Project.of(goal, allowed.files, test, catalogue, setting.forbidden)
    if goal.steps is not None:
        return _take_supplied(project, allowed, setting.forbidden)
    template = _fill_template(project)
    return template if setting.drafter == NONE else _draft_with(project, template, setting)


def input_for(live: LivePlan, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the prompt and the answer's schema for the step that asks for a draft; None for any other step."""
    if facts["step_id"] != DRAFT_ID:
        return None
    return {"prompt": TaskState.model_validate(live.state).prompt, "schema": TASK_DRAFT_SCHEMA}


def refusal(live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | None:
    """Return the faults that a drafter has to repair in an answer; None if there are none."""
    if facts["step_id"] != DRAFT_ID:
        return None
    found = _queue_cycle(live, catalogue_of(live.tools)).refusal(output)
    return found.message if found else None


def advance(live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
    """Expand the plan after the step that asks: by the drafted steps, or by the template's if no draft is usable."""
    return _queue_cycle(live, catalogue).go_on(end) if end.step_id == DRAFT_ID else None


def answer(_: LivePlan, __: Any, ___: Catalogue) -> Expansion | str:
    """Refuse any answer: this kind asks no question."""
    return "A task asks no questions."


def stuck(_: LivePlan, __: Catalogue) -> Expansion | None:
    """Return None: the halt rules decide about a plan that cannot go on."""
    return None


def _take_supplied(project: Project, allowed: Expanded, forbidden: Forbidden) -> Answer:
    goal = project.goal
    steps, errors = supplied.convert(goal.steps or (), project)
    if not (allowed.files or project.patterns) and any(
        step.controller_task_spec.type is StepType.PATCH for step in steps
    ):
        errors = (_no_allowed_files(goal), *errors)
    if goal.review and not project.tests:
        errors = (*errors, field_error("/review", "no_verification", NO_VERIFICATION))
    if not errors:
        reviewed = (*steps, review_step(project, steps)) if goal.review else steps
        return Draft(reproduce_first(project, reviewed))
    named = {error.pointer for error in errors}
    follow = (
        set() if allowed.files or project.patterns else {"outside_allowlist"}
    )  # of every file, where none is allowed
    found = validate(goal, steps, project.catalogue, forbidden)
    others = (error for error in found if error.pointer not in named and error.code not in follow)
    return reject("invalid_plan", (*errors, *others))


def _fill_template(project: Project) -> Answer:
    kind = goal_type(project.goal)
    if project.only_documents and kind is not GoalType.OBSERVATION:
        kind = GoalType.GENERIC  # documentation is neither designed nor tested
    template = TEMPLATES[kind]
    tests = [role_of(path) is Role.TEST for path in (*project.files, *map(sample, project.patterns))]
    if kind is GoalType.FEATURE and (all(tests) or (any(tests) and is_about_tests(project.goal))):
        template = WRITE_TESTS  # a goal that only changes tests writes them once
    if not (project.files or project.patterns) and any(row.type is StepType.PATCH for row in template.rows):
        return reject("no_allowed_files", (_no_allowed_files(project.goal),))
    steps, limit = template_steps(project, template), max_steps(project.goal)
    # Errors about the goal's own omissions: the validator could only report steps.
    if len(steps) > limit >= len(template.rows):
        sentence = (
            f"{len(project.files)} files make {len(steps)} steps, and the limit is {limit}: raise limits.max_steps"
        )
        error = field_error("/allowed_files", "too_many_files", f"{sentence} or allow fewer files.")
        return reject("invalid_goal", (error,))
    if any(RISK[step.risk_level].tests_required and not step.verify_tools for step in steps):
        return reject("invalid_goal", (field_error("/context/test_command", "no_verification", NO_VERIFICATION),))
    return Draft(reproduce_first(project, steps), describe_template(project, kind, template))


def _no_allowed_files(goal: Goal) -> FieldError:
    why = "Its globs match no file of context.files" if goal.allowed_files else "A step that patches needs them"
    return field_error("/allowed_files", "no_allowed_files", f"{why}: set allowed_files to the files that may change.")


def _draft_with(project: Project, template: Answer, setting: Setting) -> Answer:
    """Return the drafter's plan, its next question, or a fallback; `template` is the answer without a drafter.

    If no template can plan the goal, the drafter is asked only if the reason is too many files.
    """
    if isinstance(template, Rejected) and {error.code for error in template.errors} != {"too_many_files"}:
        return template
    options = DraftOptions.of(setting.options)
    prompt = prompt_of(project, results_for_drafters(setting.memory), with_schema=options.schema_in_prompt)
    if setting.drafter == QUEUE:
        return _ask_controller(project, template, options, prompt)
    strict, changes = options.validation_mode == "strict", _asks_for_change(template)

    def accept(plan: ParsedDraft, drafted: Sequence[Drafted]) -> Answer:
        document = describe_draft(plan, {"drafter": setting.drafter, "questions": len(drafted)})
        return Draft(plan.steps, document, phases=(_drafted_phase(plan),))

    def repair(said: Drafted, refusal: Refusal) -> Consult | None:
        if said.error is not None:
            return None
        return Consult(repair_of(prompt, said.output, refusal.errors), TASK_DRAFT_SCHEMA)

    def fall_back(refusal: Refusal, _: Sequence[Drafted]) -> Answer:
        why = _why(refusal)
        if isinstance(template, Draft) and options.fallback:
            document = describe_fallback(template.document, why)
            return replace(template, document=document, phases=(_fallback_phase(why),))
        rest = template.errors if isinstance(template, Rejected) and options.fallback else ()
        return Rejected(FAILED, (failure(why), *rest))

    return WorkerCycle(
        attempts=options.max_attempts,
        ask=Consult(prompt, TASK_DRAFT_SCHEMA),
        judge=lambda output: parse(project, output, strict=strict, changes=changes),
        silence=lambda why: failure(f"The drafter did not answer: {fit(why, MAX_WHY)}."),
        repair=repair,
        accept=accept,
        fall_back=fall_back,
    ).answer(setting.drafted)


def _asks_for_change(template: Answer) -> bool:
    """Return whether the goal asks for a change: its template changes files, or was rejected for too many files."""
    if not isinstance(template, Draft):
        return True
    return any(step.controller_task_spec.type is StepType.PATCH for step in template.steps)


def _ask_controller(project: Project, template: Answer, options: DraftOptions, prompt: str) -> Answer:
    """Return a plan whose only step asks a controller for a draft; the state stores the template's steps."""
    usable = isinstance(template, Draft) and options.fallback and len(template.steps) <= room_for(project.goal, 1)
    state = TaskState(
        prompt=prompt,
        strict=options.validation_mode == "strict",
        changes=_asks_for_change(template),
        language=project.language.name if project.language else None,
        template=template.steps if usable and isinstance(template, Draft) else (),
        document=dict(template.document or {}) if isinstance(template, Draft) else None,
    )
    step = draft_step(project.goal, options.max_attempts)
    return Draft((step,), {"drafter": QUEUE}, state=state.model_dump(mode="json"))


def _queue_cycle(live: LivePlan, catalogue: Catalogue) -> QueueCycle[ParsedDraft]:
    """Return the functions for a controller's answer to the step that asks for a draft."""
    state = TaskState.model_validate(live.state)

    def judge(output: Any) -> ParsedDraft | Refusal:
        return parse(project_in(live, state, catalogue), output, strict=state.strict, changes=state.changes)

    def accept(plan: ParsedDraft, _: End) -> Expansion:
        document = describe_draft(plan, {"drafter": QUEUE})
        why = "The drafted plan becomes steps."
        return Expansion(WORKING, document, why, plan.steps, phases=(_drafted_phase(plan),))

    def fall_back(end: End, refusal: Refusal | None) -> Expansion:
        if refusal:
            why = _why(refusal)
        elif end.state == StepState.SKIPPED:
            why = f"{end.step_id} was skipped."
        else:
            why = str((end.failure or {}).get("suggestion") or f"{end.step_id} failed.")
        if not state.template:
            reason = f"The draft is of no use: {why}"
            evidence = {"step_id": DRAFT_ID, "last_error": why}
            return Expansion(WORKING, live.document, reason, halt=("planning_failed", reason, evidence))
        document, phase = describe_fallback(state.document, why), _fallback_phase(why)
        return Expansion(WORKING, document, phase.status, state.template, phases=(phase,), replaces=True)

    return QueueCycle(judge=judge, accept=accept, fall_back=fall_back)


def _why(refusal: Refusal) -> str:
    """Return the first fault of a refused draft."""
    return fit(refusal.errors[0].message, MAX_WHY)


def _drafted_phase(plan: ParsedDraft) -> Phase:
    return Phase("drafted", f"The plan is drafted: {len(plan.steps)} step(s).")


def _fallback_phase(why: str) -> Phase:
    return Phase("fallback", f"The draft is of no use, and the template plan is used instead: {why}")
