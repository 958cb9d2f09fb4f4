"""Plans a campaign and continues it: the six functions of a strategy, in the order of their use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from schemas.base import StepState
from schemas.envelope import field_error
from schemas.goal import Goal
from schemas.kinds.campaign import (
    LEAST_CONFIDENCE,
    MAX_OBJECTIVE,
    TASKS_SCHEMA,
    CampaignInput,
    CoherenceDecision,
    Exploration,
    TaskStatus,
    TaskType,
)
from tasks.rules.permission import expand_allowed
from tasks.rules.strategy import Answer, Blocked, End, Expansion, LivePlan, Setting, Workflow
from tasks.rules.validation import reject
from tasks.strategies.campaign.answers import learn
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
    Outline,
    coherence_of,
    draft_of,
    expand,
    outline,
    outline_of_given,
    plan_unaided,
    with_phases,
)
from tasks.strategies.campaign.parts import meant_for
from tasks.strategies.campaign.question import page_of
from tasks.strategies.campaign.replan import draft_again, may_plan_again, replan_by_templates, with_tests_again
from tasks.strategies.campaign.sequence import parents
from tasks.strategies.campaign.state import CampaignScope, CampaignState, scope_of, terms_of
from tasks.strategies.campaign.steps import DRAFT, blocked_reason, note_end, task_of, tasks_of
from tasks.strategies.campaign.tasks import MAX_MESSAGE, judge_tasks, plan_tasks
from tasks.strategies.campaign.verification import read_command
from tasks.strategies.drafting.cycle import NONE, QUEUE
from tasks.strategies.drafting.project import read_test_command
from tasks.text.fields import fit, several_lines
from tasks.toolchain.catalogue import Catalogue

BARE = Setting()
WORKFLOW = Workflow(
    "003",
    "an objective of several parts becomes a graph of tasks",
    "campaign",
    {
        "phases": (
            *("READ_EXPLORATION", "CALCULATE_COMPLEXITY", "COHERENCE_CHECK", "DESIGN_SEQUENCE", "LOCATE_TARGETS"),
            *("SET_BUDGETS", "EXTRACT_IDIOMS", "OUTPUT_PLAN"),
        ),
        "tasks": tuple(TaskType),
    },
)
MAX_SIBLINGS = 5  # other blocked tasks
_QUESTIONS = {
    each.value.lower() for each in (CoherenceDecision.CLARIFY, CoherenceDecision.CONFIRM)
}  # the waits of a campaign


def draft(goal: Goal, catalogue: Catalogue, setting: Setting = BARE) -> Answer:
    """Return the answer to a goal: a plan with steps or a question, a drafter's prompt, or a rejection. Pure."""
    allowed = expand_allowed(goal.allowed_files, goal.context.files, setting.forbidden)
    test, unknown = read_test_command(goal, partial(read_command, catalogue=catalogue))
    given = goal.campaign or CampaignInput()
    short = (error.model_copy(update={"message": fit(error.message, MAX_MESSAGE)}) for error in unknown)
    errors = (*allowed.errors, *short)
    if not allowed.files and not (given.tasks and all(task.type is TaskType.VERIFY for task in given.tasks)):
        message = "A campaign changes files: set allowed_files to those that may change."
        errors += (field_error("/allowed_files", "no_allowed_files", message),)
    if errors:
        return reject("invalid_goal", errors)
    terms = terms_of(goal, setting)
    tested = catalogue.contracts[test.tool].languages if test else ()
    scope = CampaignScope(goal, objective_of(goal), allowed.files, catalogue, terms)
    known = knowledge_of_goal(goal, allowed.files, test, tested, terms.failures, setting.memory)
    known, phase = read_exploration(known, given.exploration, scope)
    if given.tasks is not None:
        wrong = judge_tasks(given.tasks, scope.allowed, catalogue)
        made = None
        if all(error.code == "unknown_dependency" for error in wrong):
            made = outline_of_given(known, plan_tasks(given.tasks, known, catalogue), scope)
        if not isinstance(made, Outline):
            return reject("invalid_tasks", wrong)
        return draft_of(with_phases(made, phase))
    if terms.drafter not in (NONE, QUEUE):
        return consult(known, phase, scope, setting)
    return plan_unaided(known, phase, scope)


def input_for(live: LivePlan, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the input of a step: the objective, a drafter's prompt, or its task with all facts; else None."""
    state, document = CampaignState.model_validate(live.state), live.document or {}
    step_id, known, progress = str(facts.get("step_id")), state.known, state.progress
    objective = document.get("objective", live.goal.goal)
    remembered = {"failures": list(known.failures), "patterns": list(known.patterns)}
    if step_id == EXPLORE:
        return {"objective": objective, "prior_knowledge": remembered}
    if step_id == state.waits:
        return {"mode": "plan" if step_id == DRAFT else "replan", "prompt": state.prompt, "schema": TASKS_SCHEMA}
    seq = task_of(state, step_id)
    task = next((task for task in tasks_of(document) if task.seq == seq), None)
    if seq is None or task is None:
        return None
    lineage = {other: progress[other].delivered for other in parents(task.depends) if other in progress}
    blocked = [(seq, each.reason) for seq, each in progress.items() if each.status is TaskStatus.BLOCKED]
    return {
        "campaign": document.get("campaign"),
        "objective": fit(str(objective), MAX_OBJECTIVE, several_lines),
        "meant": meant_for(task, known) or None,
        "task": task.model_dump(mode="json", exclude_none=True),
        "framework": known.framework,
        "idioms": {**known.idioms.model_dump(mode="json"), "enforced": known.confidence >= LEAST_CONFIDENCE},
        "lineage": {seq: text for seq, text in lineage.items() if text},
        **({"before": before.model_dump(mode="json", exclude_none=True)} if (before := progress[seq].before) else {}),
        "sibling_failures": {seq: reason for seq, reason in blocked[:MAX_SIBLINGS] if reason},
        "prior_knowledge": remembered,
    }


def refusal(live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | Blocked | None:
    """Return why an answer is not valid, or that its task is blocked; None if the answer counts."""
    state, step_id = CampaignState.model_validate(live.state), facts.get("step_id")
    if step_id == state.waits == EXPLORE:
        found = parse_exploration(output)
        return found if isinstance(found, str) else None
    if step_id == state.waits:
        refused = queue_cycle(live, state).refusal(output)
        return mistakes_in(refused) if refused else None
    reason = blocked_reason(output)
    return Blocked(reason) if reason else None


def advance(live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
    """Plan on after the exploration or the draft; after any other step update the progress of its task."""
    state = CampaignState.model_validate(live.state)
    if end.step_id == state.waits == EXPLORE:
        scope = scope_of(live, state, catalogue)
        found = parse_exploration(end.output) if end.state == StepState.DONE else None
        known, phase = read_exploration(state.known, found if isinstance(found, Exploration) else None, scope)
        return expand(with_phases(outline(known, scope, before=state.made), phase), "The exploration has ended.")
    if end.step_id == state.waits:
        return queue_cycle(live, state, catalogue).go_on(end)
    seq = task_of(state, end.step_id)
    if seq is None:
        return None
    state = note_end(state, seq, end, live.document or {})
    document = {**(live.document or {}), "progress": progress_report(state.progress)}
    task = state.progress[seq]
    beyond = f", {task.beyond_budget} tool calls beyond its budget" if task.beyond_budget else ""
    why = f"Task {seq} is {task.status.replace('_', ' ')}{beyond}."
    return Expansion(state.model_dump(mode="json"), document, why)


def answer(live: LivePlan, value: Any, catalogue: Catalogue) -> Expansion | str:
    """Plan on with a person's answer, ask again, or halt after too many answers.

    Return a sentence with the reason if the answer is not valid.
    """
    state = CampaignState.model_validate(live.state)
    if state.waits not in _QUESTIONS:
        return "The campaign asks nothing."
    scope = scope_of(live, state, catalogue)
    coherence = coherence_of(state.known, scope)
    page = page_of(coherence, state.known, scope.objective, scope.allowed)
    known = learn(value, page, coherence, state.known, scope)
    if isinstance(known, str):
        return known
    rounds = state.rounds + 1
    made = (
        outline_of_given(known, state.given, scope, rounds)
        if state.given
        else outline(known, scope, rounds, state.made)
    )
    if isinstance(made, str):
        return fit(made, MAX_MESSAGE)
    limit = state.terms.clarifications
    if made.question is None or rounds < limit:
        return expand(made, f"Answer {rounds} was taken in.")
    evidence = {"value": rounds, "limit": limit, "limit_name": "clarifications"}
    reason = f"{rounds} answers did not make the objective clear."
    return Expansion(
        made.state.model_dump(mode="json"),
        made.document,
        reason,
        phases=made.phases,
        halt=("clarification_limit", reason, {**evidence, "questions": list(made.question.questions)}),
    )


def stuck(live: LivePlan, catalogue: Catalogue) -> Expansion | None:
    """Replan the incomplete tasks; return None if the limit of replans is reached or replanning cannot help."""
    state = CampaignState.model_validate(live.state)
    with_tests = with_tests_again(live, state)
    if not may_plan_again(state, with_tests):
        return None
    scope = scope_of(live, state, catalogue)
    state = with_tests.model_copy(update={"replans": state.replans + 1})
    return (draft_again if state.terms.drafter == QUEUE else replan_by_templates)(live, state, scope)
