"""Gets the tasks of a campaign from a drafter, and uses the templates if its drafts are not usable.

Drafted tasks are judged like the tasks that a goal brings, and the drafter gets all faults to repair. The worker asks
its own drafter (`http`, `cli`, `backend`) before the plan exists, and never later. If the drafter is `queue`, a step of
the plan asks a controller; if the campaign is stuck, another step asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from schemas.base import StepState
from schemas.contract.strict import leave_out_nulls
from schemas.envelope import FieldError, field_error
from schemas.kinds.campaign import TASKS_SCHEMA, CoherenceDecision, DraftedTasks, GivenTask, TaskType
from schemas.step import PlannedStep
from schemas.wording import expected
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, End, Expansion, LivePlan, Phase, Rejected, Setting
from tasks.rules.validation import validate
from tasks.strategies.campaign.outline import (
    Outline,
    coherence_of,
    decision_phases,
    draft_of,
    expand,
    is_explored,
    outline_of_tasks,
    outline_of_templates,
    plan_unaided,
    with_phases,
)
from tasks.strategies.campaign.prompt import prompt_of
from tasks.strategies.campaign.replan import replan_by_templates, replan_with
from tasks.strategies.campaign.sequence import merge
from tasks.strategies.campaign.state import CampaignScope, CampaignState, Knowledge, changeable_files, scope_of
from tasks.strategies.campaign.steps import DRAFT, complete_tasks, tasks_of
from tasks.strategies.campaign.tasks import judge_each, judge_tasks, plan_tasks
from tasks.strategies.drafting.cycle import FAILED, NONE, QUEUE, DraftOptions, QueueCycle, Refusal, WorkerCycle
from tasks.strategies.drafting.steps import crowd, room_for
from tasks.text.fields import fit
from tasks.text.forbidden_paths import JUDGED
from tasks.text.json_in_prose import read_json
from tasks.text.paths import clean
from tasks.toolchain.catalogue import Catalogue

ROOT = "/tasks"
DRAFTING = "DRAFT"  # in addition to the eight phases of planning, if a drafter writes the tasks
SKIPPED = "an operator skipped the draft"
MAX_TOLD = 480  # characters of faults: a failure keeps 500
MAX_PATH = 200  # characters of a file that is named
_MISTAKES = 10

Judge = Callable[[Sequence[GivenTask], Sequence[str], Catalogue, str], tuple[FieldError, ...]]


def consult(known: Knowledge, phase: Phase, scope: CampaignScope, setting: Setting) -> Answer:
    """Return the plan with the tasks of the worker's drafter, the next question to the drafter, or the fallback.

    If an exploration leaves something unclear, a person is asked first. Without an exploration the drafter gets the
    facts of the goal.
    """
    if is_explored(scope) and coherence_of(known, scope).decision is not CoherenceDecision.PROCEED:
        return plan_unaided(known, phase, scope)
    with_schema, by = DraftOptions.of(setting.options).schema_in_prompt, scope.terms.drafter
    state = CampaignState(known=known, terms=scope.terms)

    def ask(errors: Sequence[FieldError] = ()) -> Consult:
        return Consult(prompt_of(known, scope, errors=errors, with_schema=with_schema), TASKS_SCHEMA)

    def fall_back(refusal: Refusal, _: Sequence[Drafted]) -> Answer:
        if scope.terms.reject:
            return Rejected(FAILED, refusal.errors)
        made = plan_unaided(known, phase, _without_drafter(scope))
        if not isinstance(made, Draft):
            return made
        return replace(made, phases=(*made.phases[:3], _fallback_phase(mistakes_in(refusal)), *made.phases[3:]))

    return WorkerCycle(
        attempts=scope.terms.attempts,
        ask=ask(),
        judge=lambda output: _outline_of_draft(output, state, scope, by),
        silence=lambda why: field_error("/drafter", FAILED, fit(f"The drafter did not answer: {why}.", 300)),
        repair=lambda _, refusal: ask(refusal.errors),
        accept=lambda made, _: draft_of(with_phases(made, phase, *decision_phases(known), _drafted_phase(made, by))),
        fall_back=fall_back,
    ).answer(setting.drafted)


def queue_cycle(live: LivePlan, state: CampaignState, catalogue: Catalogue | None = None) -> QueueCycle[Any]:
    """Return the functions that handle a controller's draft: for the first plan, or for a stuck campaign."""
    scope = scope_of(live, state, catalogue)
    return (_first if state.waits == DRAFT else _anew)(live, state, scope)


def mistakes_in(refusal: Refusal) -> str:
    """Return the faults of a draft in one line."""
    return fit(refusal.message, MAX_TOLD)


def _outline_of_draft(output: Any, state: CampaignState, scope: CampaignScope, by: str) -> Outline | Refusal:
    """Return the plan with the tasks that a drafter wrote, or a refusal with their faults."""
    tasks = _read(output, judge_tasks, state, scope)
    if isinstance(tasks, Refusal):
        return tasks
    if all(task.type is TaskType.VERIFY for task in tasks):
        return _refuse("nothing_to_change", "No task changes anything: a campaign needs a SPEC or a BUILD.")
    planned = plan_tasks(tasks, state.known, scope.catalogue)
    made = outline_of_tasks(state.known, planned, scope, by, state.rounds, state.made)
    return Refusal((made.trouble,)) if made.trouble else _judge_steps(made.steps, state.made, scope) or made


def _drafted_phase(made: Outline, by: str) -> Phase:
    """Return the phase that reports how many tasks the drafter `by` wrote."""
    return Phase(DRAFTING, f"Step: draft, Status: {len(made.state.progress)} tasks by the drafter {by}")


def _fallback_phase(why: str) -> Phase:
    """Return the phase for tasks from the templates after unusable drafts."""
    return Phase(DRAFTING, f"Step: draft, Status: falling back on the templates ({why})")


def _first(live: LivePlan, state: CampaignState, scope: CampaignScope) -> QueueCycle[Outline]:
    """Return the cycle of the first draft: plan with its tasks; without a usable draft, use the templates or halt."""

    def fall_back(end: End, _: Refusal | None) -> Expansion:
        why = _cause(end)
        if state.terms.reject and end.state == StepState.FAILED:
            evidence = {"step_id": end.step_id, "attempts": state.terms.attempts, "last_error": why}
            reason = f"The drafts of the tasks are of no use: {why}"
            return Expansion(live.state, live.document, reason, halt=("planning_failed", reason, evidence))
        made = outline_of_templates(state.known, _without_drafter(scope), state.rounds, state.made)
        return expand(with_phases(made, _fallback_phase(why)), "The tasks are those of the templates.")

    return QueueCycle(
        judge=lambda output: _outline_of_draft(output, state, scope, QUEUE),
        accept=lambda made, _: expand(with_phases(made, _drafted_phase(made, QUEUE)), "The tasks are drafted."),
        fall_back=fall_back,
    )


def _anew(live: LivePlan, state: CampaignState, scope: CampaignScope) -> QueueCycle[Expansion]:
    """Return the cycle of a later draft: replan with its tasks, else repeat the incomplete tasks by the templates."""

    def judge(output: Any) -> Expansion | Refusal:
        found = _read(output, judge_each, state, scope)
        if isinstance(found, Refusal):
            return found
        changed = plan_tasks(found, state.known, scope.catalogue)
        tasks = merge(tasks_of(live.document), changed, complete_tasks(state))
        if isinstance(tasks, str):
            return _refuse("invalid_graph", tasks)
        made = replan_with(live, state, tasks, scope)
        return _judge_steps(made.steps, state.made, scope) or made

    def fall_back(end: End, _: Refusal | None) -> Expansion | None:
        made = replan_by_templates(live, state, scope)
        return replace(made, phases=(_fallback_phase(_cause(end)), *made.phases)) if made else None

    return QueueCycle(judge=judge, accept=lambda made, _: made, fall_back=fall_back)


def _without_drafter(scope: CampaignScope) -> CampaignScope:
    return replace(scope, terms=scope.terms.model_copy(update={"drafter": NONE}))


def _judge_steps(steps: Sequence[PlannedStep], before: int, scope: CampaignScope) -> Refusal | None:
    """Return the faults in the steps of drafted tasks, or an error if these are too many; None without faults."""
    crowded = crowd(steps, room_for(scope.goal, before), "These tasks", ROOT)
    errors = crowded or validate(scope.goal, steps, scope.catalogue, JUDGED)
    return Refusal(errors) if errors else None


def _not_chosen(tasks: Sequence[GivenTask], state: CampaignState, scope: CampaignScope) -> Iterator[FieldError]:
    """Yield an error for each file that a task changes although a person's choice of files leaves it out."""
    left_out = {*scope.allowed} - {*changeable_files(state.known, scope.allowed)}
    for number, task in enumerate(tasks):
        for field, paths in (("delta", task.delta), ("creates", task.creates)):
            for place, path in enumerate(paths):
                if task.type is not TaskType.VERIFY and clean(path) in left_out:
                    message = f"{fit(path, MAX_PATH)} is not among the files that a person chose."
                    yield _mistake("not_chosen", message, (ROOT[1:], number, field, place))


def _read(output: Any, judge: Judge, state: CampaignState, scope: CampaignScope) -> tuple[GivenTask, ...] | Refusal:
    """Return the tasks in a drafter's answer, or a refusal with all faults."""
    try:
        found = read_json(output)
    except ValueError:
        return _refuse("no_json", "The answer is no JSON: it must be one object with the list `tasks`.")
    if isinstance(found, list):
        found = {"tasks": found}
    if not isinstance(found, Mapping):
        return _refuse("no_tasks", "The answer must be one JSON object with the list `tasks`.")
    try:
        tasks = DraftedTasks.model_validate(leave_out_nulls(found, TASKS_SCHEMA)).tasks
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[:_MISTAKES]
        return Refusal(tuple(_mistake("invalid_task", f"{expected(each)}.", each["loc"]) for each in wrong))
    errors = (*judge(tasks, scope.allowed, scope.catalogue, ROOT), *_not_chosen(tasks, state, scope))
    return Refusal(errors) if errors else tasks


def _refuse(code: str, message: str) -> Refusal:
    return Refusal((_mistake(code, message, (ROOT[1:],)),))


def _mistake(code: str, message: str, where: Sequence[str | int]) -> FieldError:
    return FieldError(pointer=fit("/" + "/".join(map(str, where)), 200), code=code, message=message)


def _cause(end: End) -> str:
    """Return the reason why the step that asks for a draft supplied none."""
    if end.state == StepState.SKIPPED:
        return SKIPPED
    failure = end.failure or {}
    said = (failure.get("suggestion"), failure.get("trace"), failure.get("category"))
    return next((fit(each, MAX_TOLD) for each in said if isinstance(each, str) and each.strip()), "it failed")
