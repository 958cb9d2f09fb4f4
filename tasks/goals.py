"""What becomes of a goal: a validated plan, a rejection with all its reasons, or nothing to do."""

from __future__ import annotations

from dataclasses import replace

from schemas.goal import Goal
from tasks.planning.catalogue import CATALOGUE, Catalogue
from tasks.planning.cleaning import cleaned
from tasks.planning.draft import Answer, Consult, Draft, NothingToDo, Setting
from tasks.planning.kept import keep
from tasks.planning.registry import strategy_of
from tasks.policy.validation import rejected, validate

NO_SETTING = Setting()


def plan(goal: Goal, catalogue: Catalogue = CATALOGUE, setting: Setting = NO_SETTING) -> Answer:
    """Answer any valid goal, never raising; a Draft that comes out has passed the validator. Pure.

    The goal is sanitised first; an answer brings along the goal that it is about and what was found.
    """
    fit = cleaned(goal)
    answer = rejected(fit.error.code, (fit.error,)) if fit.error else _answer(fit.goal, catalogue, setting)
    if fit.goal is goal or isinstance(answer, NothingToDo | Consult):
        return answer
    return replace(answer, goal=answer.goal or fit.goal, findings=fit.findings)


def _answer(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    answer = strategy_of(goal.kind).draft(goal, catalogue, setting)
    if not isinstance(answer, Draft):
        return answer
    if answer.question:
        return replace(answer, tools=keep(catalogue, None))
    if errors := validate(goal, answer.steps, catalogue):
        return rejected("invalid_plan", errors)
    return replace(answer, tools=keep(catalogue, answer.steps if answer.state is None else None))
