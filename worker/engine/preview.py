"""Previews the plan of a goal, by the decisions and settings of a worker and without its drafters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from schemas.base import GoalKind, GoalVerdict, StepState, StepType
from schemas.goal import Goal
from schemas.plan import StepView
from schemas.stored.step import store_step, unpack_step
from tasks.base.policy import BUILT_IN, Policy
from tasks.features import delivery
from tasks.features.unverified import Planned, describe_unverified, tools_of
from tasks.handlers import goals
from tasks.plan.changeset import plan_history
from tasks.rules.strategy import Answer, Consult, Draft, NothingToDo, Rejected
from tasks.strategies.criteria import describe_criteria, describe_unchecked
from tasks.strategies.gap_report.outside import describe_outside
from tasks.toolchain.catalogue import Catalogue
from worker.drafters.consulting import setting_of
from worker.settings import tools_file
from worker.settings.settings import Settings
from worker.store.queries import SPEC_FIELDS
from worker.streams.internal_error import report_failure


@dataclass(frozen=True, slots=True)
class Preview:
    """The plan that a goal would get: verdict (None if a drafter decides), first steps, notes on unknown parts."""

    verdict: GoalVerdict | None
    reason: str = ""
    errors: tuple[dict[str, Any], ...] = ()
    steps: tuple[StepView, ...] = ()
    unverified: str | None = None
    outside: str | None = None
    document: Any = None
    notes: tuple[str, ...] = ()


def preview(goal: Goal | Rejected, settings: Settings, policy: Policy = BUILT_IN) -> Preview:
    """Return the plan of a goal as a worker with these settings would make it, under a policy. Raises WrongTools.

    A goal that continues a plan must have its commit already, as `beginnings` finds it.
    """
    catalogue = tools_file.catalogue(settings.tools_file)
    if isinstance(goal, Rejected):
        return _of(goal, catalogue)
    setting = setting_of(goal, settings)
    if isinstance(setting, Rejected):
        return _of(setting, catalogue)
    try:
        answer = goals.plan(goal, catalogue, replace(setting, now=time.time_ns() // 1_000_000, policy=policy))
        return replace(_of(answer, catalogue), notes=tuple(_unknown(goal, answer)))
    except Exception as error:
        problem = report_failure(error, goal_id=goal.goal_id or "")
        return _of(Rejected(problem.code, problem.errors), catalogue)


def _of(answer: Answer, catalogue: Catalogue) -> Preview:
    if isinstance(answer, Rejected):
        errors = tuple(error.model_dump() for error in answer.errors)
        return Preview(GoalVerdict.REJECTED, answer.reason, errors)
    if isinstance(answer, NothingToDo):
        return Preview(GoalVerdict.NOTHING_TO_DO, answer.reason)
    if isinstance(answer, Consult):
        return Preview(None)
    if answer.question:
        return Preview(GoalVerdict.NEEDS_INPUT, answer.question.kind)
    facts = [unpack_step(store_step(step)) for step in answer.steps]
    planned = [Planned(each, _state(each), None) for each in facts]
    criteria = describe_criteria(answer.document, tools_of(planned), catalogue)
    unverified = describe_unverified(planned, catalogue), describe_unchecked(criteria)
    return Preview(
        GoalVerdict.PLANNED,
        steps=tuple(map(_view, facts)),
        unverified=" ".join(filter(None, unverified)) or None,
        outside=describe_outside(answer.document),
        document=answer.document,
    )


def _view(facts: dict[str, Any]) -> StepView:
    kind, known = facts["controller_task_spec"]["type"], {name: facts[name] for name in SPEC_FIELDS}
    return StepView(type=kind, state=_state(facts), attempt=0, **known)


def _state(facts: dict[str, Any]) -> str:
    return StepState.BLOCKED if facts["depends_on"] else StepState.PENDING


def _unknown(goal: Goal, answer: Answer) -> Iterator[str]:
    """Yield a note for each part of the plan that only a server or a drafter can determine."""
    if isinstance(answer, Consult):
        yield "A drafter proposes the steps of this plan, and it is not asked here."
    if isinstance(answer, Draft):
        if answer.question:
            yield from answer.question.questions
        grows = goal.kind is not GoalKind.GAP_REPORT or any(
            step.controller_task_spec.type is StepType.EXPLORE for step in answer.steps
        )
        if answer.state is not None and grows:
            yield "Steps are added while the plan runs."
        if delivery.is_wanted(goal):
            yield "A step that delivers the changes comes last."
    if goal.kind is not GoalKind.TASK and plan_history(goal.kind, goal.tenant, goal.context.repo):
        yield "What earlier plans of this kind and repository came to is not known here; the plan may depend on it."
