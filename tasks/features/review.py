"""The last step of a supplied plan with a review: it runs all tests, and the quick checks on all changed files.

The changed files are known at the start of this last step. Failures from before the plan do not count there either.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas.base import Mode
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import AFTER_END, BEFORE_START, LIMITS, Feature, Judgement, limited
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.quick_checks import checks_of_changed
from tasks.rules import budget
from tasks.rules.permission import is_permitted
from tasks.rules.strategy import Draft
from tasks.toolchain.catalogue import catalogue_of, once
from tasks.toolchain.command_lines import render

MAX_FILES = 200  # that are checked


def limits_of(_: PlanSeed, goal: Goal, __: Draft) -> Mapping[str, int]:
    """Return the limit that stores changed files, if the goal asks for a review of its supplied steps."""
    return {budget.REVIEWS: 1} if goal.review and goal.steps is not None else {}


def keep_changed_files(unit: UnitOfWork, seen: Judgement) -> None:
    """Store the files that a step changed, and forget those that it removed."""
    facts, outcome, kept = seen.step.facts, seen.outcome, unit.plan.reviewed
    if facts["mode"] != Mode.PATCH:
        return
    created = [path for path in outcome.created_files if is_permitted(facts, path)]
    changed = [*created, *(path for path in outcome.touched_files if is_permitted(facts, path))]
    files = [path for path in dict.fromkeys((*kept.files, *changed)) if path not in outcome.deleted_files][:MAX_FILES]
    kept.created = [path for path in dict.fromkeys((*kept.created, *created)) if path in files]
    kept.files = files
    unit.plan.dirty.add("live")


def aim_review(unit: UnitOfWork, step: Step) -> bool:
    """Aim a review that starts for the first time at the files changed by then. Always returns false.

    Files that the plan created are checked separately, because the others have a baseline.
    """
    was, kept = PlannedStep.model_validate(step.facts), unit.plan.reviewed
    if was.mode is not Mode.TEST or step.status.attempt or not kept.files:
        return False
    catalogue = catalogue_of(unit.plan.head.tools)
    old = [path for path in kept.files if path not in kept.created]
    checks = [checks_of_changed(was.checks_after, files, catalogue) for files in (old, kept.created) if files]
    tools = once((*(tool for found, _ in checks for tool in found), *was.verify_tools))
    if tools != was.verify_tools:
        names = dict.fromkeys(name for _, added in checks for name in added)
        marked = tuple(name for name in names if all(tool.tool != name for tool in was.verify_tools))
        update = {"verify_tools": tools, "verify": render(tools), "quick_checks": marked}
        unit.rewrite(step, was.model_copy(update=update))
    return False


FEATURE = Feature(
    "review",
    (
        LIMITS.row(limits_of),
        AFTER_END.row(keep_changed_files, only=limited(budget.REVIEWS)),
        BEFORE_START.row(aim_review, only=limited(budget.REVIEWS), fact="checks_after"),
    ),
    is_idle=lambda plan: budget.REVIEWS not in plan.limits,
    start_fields=("checks_after",),
)
