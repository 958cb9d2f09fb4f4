"""How a campaign is planned and goes on: the six verbs, in order of life."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from schemas.base import StepState
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.kinds.campaign import (
    LEAST_CONFIDENCE,
    MAX_OBJECTIVE,
    CampaignInput,
    CoherenceDecision,
    PlanTask,
    TaskStatus,
    TaskType,
)
from tasks.rules.strategy import Answer, End, Expansion, LivePlan, Phase, Setting
from tasks.rules.validation import reject
from tasks.strategies.campaign.answers import PendingQuestion, learn
from tasks.strategies.campaign.document import progress_report
from tasks.strategies.campaign.drafts import consult, mistakes_in, queue_cycle
from tasks.strategies.campaign.exploration import (
    EXPLORE,
    knowledge_of_goal,
    objective_of,
    parse_exploration,
    read_exploration,
)
from tasks.strategies.campaign.outline import (
    GOAL,
    Outline,
    coherence_of,
    decision_phases,
    draft_of,
    expand,
    outline,
    outline_of_tasks,
    plan_unaided,
    with_phases,
)
from tasks.strategies.campaign.question import page_of
from tasks.strategies.campaign.replan import ask_anew, is_worth_it, replan_by_templates
from tasks.strategies.campaign.sequence import parents
from tasks.strategies.campaign.state import CampaignScope, CampaignState, Knowledge, scope_of, terms_of
from tasks.strategies.campaign.steps import blocked_reason, draft_input, note_end, task_of, tasks_of
from tasks.strategies.campaign.tasks import MAX_MESSAGE, judge_tasks, plan_tasks
from tasks.strategies.campaign.verification import read_command
from tasks.strategies.drafting.cycle import NONE, QUEUE
from tasks.strategies.drafting.project import read_test_command
from tasks.text.fields import fit, several_lines
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import Catalogue

BARE = Setting()
MAX_SIBLINGS = 5  # other tasks that were blocked
_QUESTIONS = {
    each.value.lower() for each in (CoherenceDecision.CLARIFY, CoherenceDecision.CONFIRM)
}  # what a campaign waits with


def draft(goal: Goal, catalogue: Catalogue, setting: Setting = BARE) -> Answer:
    """Answer with steps, a question, a step that asks, or a drafter's prompt. Pure."""
    allowed = expand_globs(goal.allowed_files, goal.context.files, forbidden=setting.forbidden)
    test, unknown = read_test_command(goal, partial(read_command, catalogue=catalogue))
    if errors := allowed.errors + tuple(map(_short, unknown)) + _nothing_allowed(goal, allowed.files):
        return reject("invalid_goal", errors)
    terms = terms_of(goal, setting)
    tested = catalogue.contracts[test.tool].languages if test else ()
    scope = CampaignScope(goal, objective_of(goal), allowed.files, catalogue, terms)
    known = knowledge_of_goal(goal, allowed.files, test, tested, terms.failures)
    given = goal.campaign or CampaignInput()
    known, phase = read_exploration(known, given.exploration, scope)
    if given.tasks is not None:
        return _draft_given(known, phase, scope)
    if terms.drafter not in (NONE, QUEUE):
        return consult(known, phase, scope, setting)
    return plan_unaided(known, phase, scope)


def input_for(live: LivePlan, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give a step what it needs: the objective, a prompt, or its task."""
    state, document = CampaignState.model_validate(live.state), live.document or {}
    step_id = str(facts.get("step_id"))
    if step_id == EXPLORE:
        return {"objective": document.get("objective", live.goal.goal), "prior_knowledge": _remembered(state)}
    if step_id == state.waits:
        return draft_input(state, step_id)
    tasks = {task.seq: task for task in tasks_of(document)}
    task = tasks.get(task_of(state, step_id) or "")
    return _task_input(live, state, task) if task else None


def refusal(live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say why an exploration or draft is no use, or a task is blocked."""
    state, step_id = CampaignState.model_validate(live.state), facts.get("step_id")
    if step_id == state.waits == EXPLORE:
        found = parse_exploration(output)
        return found if isinstance(found, str) else None
    if step_id == state.waits:
        refused = queue_cycle(live, state).refusal(output)
        return mistakes_in(refused) if refused else None
    reason = blocked_reason(output)
    return f"The task is blocked: {reason}" if reason else None


def advance(live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
    """Plan from an exploration or a draft; otherwise note how far a task is."""
    state = CampaignState.model_validate(live.state)
    if end.step_id == state.waits == EXPLORE:
        return _plan_explored(live, state, end, catalogue)
    if end.step_id == state.waits:
        return queue_cycle(live, state, catalogue).go_on(end)
    seq = task_of(state, end.step_id)
    if seq is None:
        return None
    state = note_end(state, seq, end, live.document or {})
    document = {**(live.document or {}), "progress": progress_report(state.progress)}
    status = state.progress[seq].status
    return Expansion(state.model_dump(mode="json"), document, f"Task {seq} is {status.replace('_', ' ')}.")


def answer(live: LivePlan, value: Any, catalogue: Catalogue) -> Expansion | str:
    """Go on from a person's answer, ask again, or say why it is none."""
    state = CampaignState.model_validate(live.state)
    if state.waits not in _QUESTIONS:
        return "The campaign asks nothing."
    scope = scope_of(live, state, catalogue)
    coherence = coherence_of(state.known, scope)
    page = page_of(coherence, state.known, scope.objective, scope.allowed)
    known = learn(value, PendingQuestion(coherence, state.known, page, scope.allowed, catalogue))
    if isinstance(known, str):
        return known
    made = outline(known, scope, state.rounds + 1, state.made)
    if made.question and made.state.rounds >= state.terms.clarifications:
        return _give_up(made)
    return expand(made, f"Answer {made.state.rounds} was taken in.")


def stuck(live: LivePlan, catalogue: Catalogue) -> Expansion | None:
    """Plan anew what is not complete, unless that was done often enough or cannot help."""
    state = CampaignState.model_validate(live.state)
    if state.replans >= state.terms.replans or not is_worth_it(state.progress):
        return None
    scope = scope_of(live, state, catalogue)
    state = state.model_copy(update={"replans": state.replans + 1})
    return (ask_anew if state.terms.drafter == QUEUE else replan_by_templates)(live, state, scope)


def _draft_given(known: Knowledge, phase: Phase, scope: CampaignScope) -> Answer:
    """Plan with the tasks that the goal brings."""
    tasks = scope.goal.campaign.tasks or () if scope.goal.campaign else ()
    if errors := judge_tasks(tasks, scope.allowed, scope.catalogue):
        return reject("invalid_tasks", errors)
    made = outline_of_tasks(known, plan_tasks(tasks, known, scope.catalogue), scope, GOAL)
    return draft_of(with_phases(made, phase, *decision_phases(known)))


def _short(error: FieldError) -> FieldError:
    return error.model_copy(update={"message": fit(error.message, MAX_MESSAGE)})


def _nothing_allowed(goal: Goal, files: tuple[str, ...]) -> tuple[FieldError, ...]:
    tasks = goal.campaign.tasks if goal.campaign else None
    if files or (tasks and all(task.type is TaskType.VERIFY for task in tasks)):
        return ()
    message = "A campaign changes files: set allowed_files to those that may change."
    return (field_error("/allowed_files", "no_allowed_files", message),)


def _task_input(live: LivePlan, state: CampaignState, task: PlanTask) -> Mapping[str, Any]:
    """Give a task with what went before it and what is remembered."""
    document, known = live.document or {}, state.known
    return {
        "campaign": document.get("campaign"),
        "objective": fit(str(document.get("objective", live.goal.goal)), MAX_OBJECTIVE, several_lines),
        "meant": known.reading or None,
        "task": task.model_dump(mode="json", exclude_none=True),
        "framework": known.framework,
        "idioms": {**known.idioms.model_dump(mode="json"), "enforced": known.confidence >= LEAST_CONFIDENCE},
        "lineage": _lineage(state, parents(task.depends)),
        "sibling_failures": _siblings(state),
        "prior_knowledge": _remembered(state),
    }


def _lineage(state: CampaignState, before: tuple[str, ...]) -> dict[str, str]:
    told = {seq: state.progress[seq].delivered for seq in before if seq in state.progress}
    return {seq: text for seq, text in told.items() if text}


def _siblings(state: CampaignState) -> dict[str, str]:
    blocked = {seq: each for seq, each in state.progress.items() if each.status is TaskStatus.BLOCKED}
    return {seq: each.reason for seq, each in list(blocked.items())[:MAX_SIBLINGS] if each.reason}


def _remembered(state: CampaignState) -> dict[str, list[str]]:
    return {"failures": list(state.known.failures), "patterns": list(state.known.patterns)}


def _plan_explored(live: LivePlan, state: CampaignState, end: End, catalogue: Catalogue) -> Expansion:
    """Plan with what was explored, or with what is remembered where nothing was."""
    scope = scope_of(live, state, catalogue)
    found = parse_exploration(end.output) if end.state == StepState.DONE else "It did not succeed."
    known, phase = read_exploration(state.known, None if isinstance(found, str) else found, scope)
    return expand(with_phases(outline(known, scope, before=state.made), phase), "The exploration has ended.")


def _give_up(made: Outline) -> Expansion:
    questions = list(made.question.questions) if made.question else []
    met = {"value": made.state.rounds, "limit": made.state.terms.clarifications, "limit_name": "clarifications"}
    evidence = {**met, "questions": questions}
    reason = f"{made.state.rounds} answers did not settle what is to be done."
    state = made.state.model_dump(mode="json")
    return Expansion(state, made.document, reason, phases=made.phases, halt=("clarification_limit", reason, evidence))
