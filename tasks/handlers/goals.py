"""What becomes of a goal: a validated plan, a rejection with all its reasons, or nothing to do."""

from __future__ import annotations

from dataclasses import replace

from schemas.goal import Goal
from tasks.rules.goal_cleaning import clean_goal
from tasks.rules.strategy import Answer, Consult, Draft, NothingToDo, Setting
from tasks.rules.validation import reject, validate
from tasks.strategies.registry import strategy_of
from tasks.text.forbidden_paths import Forbidden
from tasks.text.paths import TABOO, fault, is_glob
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, keep_contracts

NO_SETTING = Setting()


def plan(goal: Goal, catalogue: Catalogue = CATALOGUE, setting: Setting = NO_SETTING) -> Answer:
    """Answer any valid goal, never raising; a Draft that comes out has passed the validator. Pure.

    The goal is sanitised first; an answer brings along the goal that it is about and what was found.
    """
    fit = clean_goal(goal)
    planned = _without_forbidden(fit.goal, setting.forbidden)
    answer = reject("invalid_goal", fit.errors) if fit.errors else _answer(planned, catalogue, setting)
    if planned is goal or isinstance(answer, NothingToDo | Consult):
        return answer
    return replace(answer, goal=answer.goal or planned, findings=fit.findings)


def _without_forbidden(goal: Goal, forbidden: Forbidden) -> Goal:
    """Leave forbidden files out of the listing that globs are expanded against, now and when the plan expands."""
    files = goal.context.files
    if not any(map(is_glob, goal.allowed_files)):
        return goal
    kept = tuple(path for path in files if fault(path, forbidden) is not TABOO)
    if len(kept) == len(files):
        return goal
    return goal.model_copy(update={"context": goal.context.model_copy(update={"files": kept})})


def _answer(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    answer = strategy_of(goal.kind).draft(goal, catalogue, setting)
    if not isinstance(answer, Draft):
        return answer
    if answer.question:
        return replace(answer, tools=keep_contracts(catalogue, None))
    if errors := validate(goal, answer.steps, catalogue, setting.forbidden):
        return reject("invalid_plan", errors)
    return replace(answer, tools=keep_contracts(catalogue, answer.steps if answer.state is None else None))
