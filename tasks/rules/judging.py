"""Selects the steps that run tests of a plan's changes, and finds which test files of the base judge the last ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import GoalKind, Mode
from schemas.goal import Goal
from schemas.outcome import BaseJudgement, Outcome
from schemas.step import JudgedBy, PlannedStep, VerifyTool
from tasks.text.paths import clean, is_glob
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import may_be_of_tests

BY_BASE = frozenset({GoalKind.TASK, GoalKind.GAP_REPORT})
MOST_OWN = 100


def base_judges(goal: Goal) -> JudgedBy | None:
    """Return how the tests of a goal's base judge the last steps that run tests; None if they do not have to.

    They do not have to for supplied steps, for goals without a base, and for most kinds of goal. Files of tests that
    the goal names literally belong to the plan. If these are more than MOST_OWN, the result has `base` false.
    """
    if goal.kind not in BY_BASE or goal.steps is not None or goal.context.base_sha is None:
        return None
    own = own_tests(goal)
    return JudgedBy(base=True, own=own) if len(own) <= MOST_OWN else JudgedBy()


def own_tests(goal: Goal) -> tuple[str, ...]:
    """Return the files of tests that a goal names literally."""
    named = (clean(path) for path in goal.allowed_files if not is_glob(path))
    return tuple(path for path in named if may_be_of_tests(path))


def why_unjudged(facts: Mapping[str, Any], outcome: Outcome) -> str | None:
    """Return why the tests of the base did not judge a step, although they had to; None if they did.

    Also None if the controller sends no reports of tests.
    """
    by, said = facts["judged_by"], outcome.judged
    if not by["base"] and not by["holdout"]:
        return f"the goal names more than {MOST_OWN} files of tests, so that those of the base did not judge"
    if not by["base"] or not any(receipt.report for receipt in outcome.verify or ()):
        return None
    if said is None or said.base is None:
        return "no controller reported a verdict of the base's tests"
    return "the tests of the base could not run" if said.base is BaseJudgement.NOT_RUN else None


def find_last(steps: Sequence[PlannedStep]) -> frozenset[str]:
    """Return the ids of the steps that only run tests of the plan's changes, and that no other step depends on."""
    awaited = {name for step in steps for name in step.depends_on}
    return frozenset(
        step.step_id for step in steps if step.step_id not in awaited and step.mode is Mode.TEST and suite_of(step)
    )


def suite_of(step: PlannedStep, catalogue: Catalogue | None = None) -> tuple[VerifyTool, ...]:
    """Return the tools of a step that run tests of the plan's changes.

    Without the plan's catalogue, every tool that is not built in counts as a test tool, because operators may have
    added it.
    """
    if step.at_base or step.mode is Mode.READ_ONLY:
        return ()
    contracts = (catalogue or CATALOGUE).contracts
    found = ((tool, contracts.get(tool.tool)) for tool in step.verify_tools)
    return tuple(tool for tool, known in found if (known.category is ToolCategory.TEST if known else catalogue is None))


def judges_by_holdout(facts: Mapping[str, Any]) -> bool:
    """Return whether held-out tests judge a step; strategies never see this."""
    return bool((facts.get("judged_by") or {}).get("holdout"))
