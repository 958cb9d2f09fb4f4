"""The verbs of a campaign, in their order of life: draft, input, refusal, advance, answer, stuck.

The first draft of a campaign: from its tasks, its exploration or a drafter, or a step that asks for these.

What the controller of a step is given beside its spec: its task, what went before it, and what is remembered.

How a campaign goes on: with an exploration, with a person's answer, and with the ends of its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schemas.base import StepState
from schemas.campaign import LEAST_CONFIDENCE, MAX_OBJECTIVE, CampaignInput, Decision, TaskStatus, TaskType
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.rules.strategy import Answer, End, Growth, Phase, Setting, Unfolding
from tasks.rules.validation import rejected
from tasks.strategies.campaign.answers import PendingQuestion, learn
from tasks.strategies.campaign.document import progress_report
from tasks.strategies.campaign.drafts import consulted, draft_ended, drafted, redraft_ended, refused, unaided, unfolded
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
    outline,
    outline_of_tasks,
    with_phases,
)
from tasks.strategies.campaign.question import page_of
from tasks.strategies.campaign.sequence import parents
from tasks.strategies.campaign.state import CampaignScope, CampaignState, CampaignTerms, Knowledge, scope_of
from tasks.strategies.campaign.steps import DRAFT, NONE, QUEUE, blocked_reason, draft_input, note_end, task_of, tasks_of
from tasks.strategies.campaign.tasks import MAX_MESSAGE, judge_tasks, plan_tasks
from tasks.strategies.campaign.verification import read_command
from tasks.text.fields import fit, several_lines
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import Catalogue

BARE = Setting()


def draft(goal: Goal, catalogue: Catalogue, setting: Setting = BARE) -> Answer:
    """Answer a campaign with its steps, a question, the step that explores or drafts for it, or ask a drafter. Pure."""
    allowed = expand_globs(goal.allowed_files, goal.context.files, forbidden=setting.forbidden)
    test, untested = _test_command(goal, catalogue)
    if errors := allowed.errors + untested + _nothing_allowed(goal, allowed.files):
        return rejected("invalid_goal", errors)
    tested = catalogue.contracts[test.tool].languages if test else ()
    terms = terms_of(goal, setting)
    known = knowledge_of_goal(goal, allowed.files, test, tested, terms.failures)
    return _drafted(known, CampaignScope(goal, objective_of(goal), allowed.files, catalogue, terms), setting)


def terms_of(goal: Goal, setting: Setting) -> CampaignTerms:
    """Read what the goal and the operator settled: whoever brings tasks wants no drafter, unless it is asked for."""
    options, usual = setting.options, CampaignTerms()
    has_tasks = goal.campaign is not None and goal.campaign.tasks is not None
    return CampaignTerms(
        drafter=NONE if has_tasks and not goal.drafter else setting.drafter,
        attempts=max(1, options.get("max_attempts", usual.attempts)),
        reject=options.get("fallback") == "reject",
        clarifications=max(1, options.get("max_clarifications", usual.clarifications)),
        replans=options.get("max_replans", usual.replans),
        quorum=options.get("quorum", usual.quorum),
        failures=options.get("max_failures", usual.failures),
    )


def _drafted(known: Knowledge, scope: CampaignScope, setting: Setting) -> Answer:
    campaign = scope.goal.campaign or CampaignInput()
    known, phase = read_exploration(known, campaign.exploration, scope)
    if campaign.tasks is not None:
        return _given(known, phase, scope)
    if scope.terms.drafter not in (NONE, QUEUE):
        return consulted(known, phase, scope, setting)
    return unaided(known, phase, scope)


def _given(known: Knowledge, phase: Phase, scope: CampaignScope) -> Answer:
    tasks = scope.goal.campaign.tasks or () if scope.goal.campaign else ()
    if errors := judge_tasks(tasks, scope.allowed, scope.catalogue):
        return rejected("invalid_tasks", errors)
    made = outline_of_tasks(known, plan_tasks(tasks, known, scope.catalogue), scope, GOAL)
    return drafted(with_phases(made, phase, *decision_phases(known)))


def _test_command(goal: Goal, catalogue: Catalogue) -> tuple[VerifyTool | None, tuple[FieldError, ...]]:
    command = (goal.context.test_command or "").strip()
    try:
        return (read_command(command, catalogue) if command else None), ()
    except UnknownCommand as error:
        found = FieldError(
            pointer="/context/test_command", code="unknown_test_command", message=fit(str(error), MAX_MESSAGE)
        )
        return None, (found,)


def _nothing_allowed(goal: Goal, files: tuple[str, ...]) -> tuple[FieldError, ...]:
    tasks = goal.campaign.tasks if goal.campaign else None
    if files or (tasks and all(task.type is TaskType.VERIFY for task in tasks)):
        return ()
    message = "A campaign changes files: set allowed_files to those that may change."
    return (FieldError(pointer="/allowed_files", code="no_allowed_files", message=message),)


MAX_SIBLINGS = 5  # other tasks that were blocked


def input_for(growth: Growth, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give the objective to who explores, a prompt to who drafts, and its task with all around it to any other step."""
    state, document = CampaignState.model_validate(growth.state), growth.document or {}
    step_id = str(facts.get("step_id"))
    if step_id == EXPLORE:
        return {"objective": document.get("objective", growth.goal.goal), "prior_knowledge": _remembered(state)}
    if step_id == state.waits:
        return draft_input(state, step_id)
    tasks = {task.seq: task for task in tasks_of(document)}
    task = tasks.get(task_of(state, step_id) or "")
    if task is None:
        return None
    return {
        "campaign": document.get("campaign"),
        "objective": fit(str(document.get("objective", growth.goal.goal)), MAX_OBJECTIVE, several_lines),
        "meant": state.known.reading or None,
        "task": task.model_dump(mode="json", exclude_none=True),
        "framework": state.known.framework,
        "idioms": {
            **state.known.idioms.model_dump(mode="json"),
            "enforced": state.known.confidence >= LEAST_CONFIDENCE,
        },
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


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:
    """Say why an output is no use: that of a step which explores or drafts; of a task, if it is blocked."""
    state, step_id = CampaignState.model_validate(growth.state), facts.get("step_id")
    if step_id == state.waits == EXPLORE:
        found = parse_exploration(output)
        return found if isinstance(found, str) else None
    if step_id == state.waits:
        wrong = refused(growth, state, output)
        return wrong.told if wrong else None
    reason = blocked_reason(output)
    return f"The task is blocked: {reason}" if reason else None


def advance(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Plan from an exploration or a draft; otherwise note how far a task is."""
    state = CampaignState.model_validate(growth.state)
    if end.step_id == state.waits:
        return _AFTER.get(end.step_id, redraft_ended)(growth, state, end, catalogue)
    seq = task_of(state, end.step_id)
    if seq is None:
        return None
    state = note_end(state, seq, end, growth.document or {})
    document = {**(growth.document or {}), "progress": progress_report(state.progress)}
    status = state.progress[seq].status
    return Unfolding(state.model_dump(mode="json"), document, f"Task {seq} is {status.replace('_', ' ')}.")


def answer(growth: Growth, value: Any, catalogue: Catalogue) -> Unfolding | str:
    """Go on from what a person said, ask again, or say why that was no answer."""
    state = CampaignState.model_validate(growth.state)
    if state.waits not in _QUESTIONS:
        return "The campaign asks nothing."
    scope = scope_of(growth, state, catalogue)
    finding = coherence_of(state.known, scope)
    shown = page_of(finding, state.known, scope.objective, scope.allowed)
    known = learn(value, PendingQuestion(finding, state.known, shown, scope.allowed, catalogue))
    if isinstance(known, str):
        return known
    made = outline(known, scope, state.rounds + 1, state.made)
    if made.question and made.state.rounds >= state.terms.clarifications:
        return _given_up(made)
    return unfolded(made, f"Answer {made.state.rounds} was taken in.")


def _explored(growth: Growth, state: CampaignState, end: End, catalogue: Catalogue) -> Unfolding:
    scope = scope_of(growth, state, catalogue)
    found = parse_exploration(end.output) if end.state == StepState.DONE else "It did not succeed."
    known, phase = read_exploration(state.known, None if isinstance(found, str) else found, scope)
    return unfolded(with_phases(outline(known, scope, before=state.made), phase), "The exploration has ended.")


_AFTER: Mapping[str, Callable[[Growth, CampaignState, End, Catalogue], Unfolding | None]] = {
    EXPLORE: _explored,
    DRAFT: draft_ended,
}
_QUESTIONS = {each.value.lower() for each in (Decision.CLARIFY, Decision.CONFIRM)}  # what a campaign waits with


def _given_up(made: Outline) -> Unfolding:
    questions = list(made.question.questions) if made.question else []
    met = {"value": made.state.rounds, "limit": made.state.terms.clarifications, "limit_name": "clarifications"}
    evidence = {**met, "questions": questions}
    reason = f"{made.state.rounds} answers did not settle what is to be done."
    state = made.state.model_dump(mode="json")
    return Unfolding(state, made.document, reason, phases=made.phases, halt=("clarification_limit", reason, evidence))
