"""Which steps run tests of what a plan has changed, and which tests of the base judge the last of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import GoalKind, Mode
from schemas.goal import Goal
from schemas.step import JudgedBy, PlannedStep, VerifyTool
from tasks.text.paths import clean, is_glob
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import may_be_of_tests

BY_BASE = frozenset({GoalKind.TASK, GoalKind.GAP_REPORT})
MOST_OWN = 100


def base_judges(goal: Goal) -> JudgedBy | None:
    """Return how the base of a goal judges; None for steps that it brought along.

    Files of tests that it names literally are the plan's; None where these are more than MOST_OWN.
    """
    named = (clean(path) for path in goal.allowed_files if not is_glob(path))
    own = tuple(path for path in named if may_be_of_tests(path))
    has_base = goal.kind in BY_BASE and goal.steps is None and goal.context.base_sha is not None
    return JudgedBy(base=True, own=own) if has_base and len(own) <= MOST_OWN else None


def find_last(steps: Sequence[PlannedStep]) -> frozenset[str]:
    """Name the steps that change nothing, run tests of the plan's result, and that no other one waits for."""
    awaited = {name for step in steps for name in step.depends_on}
    return frozenset(
        step.step_id for step in steps if step.step_id not in awaited and step.mode is Mode.TEST and suite_of(step)
    )


def suite_of(step: PlannedStep, catalogue: Catalogue | None = None) -> tuple[VerifyTool, ...]:
    """Return the tests that a step runs of what the plan has changed.

    Without the plan's catalogue a tool that is not in ours, as those of operators are, may be one of tests.
    """
    if step.at_base or step.mode is Mode.READ_ONLY:
        return ()
    contracts = (catalogue or CATALOGUE).contracts
    found = ((tool, contracts.get(tool.tool)) for tool in step.verify_tools)
    return tuple(tool for tool, known in found if (known.category is ToolCategory.TEST if known else catalogue is None))


def judges_by_holdout(facts: Mapping[str, Any]) -> bool:
    """Tell whether held-out tests judge a step, which no strategy knows."""
    return bool((facts.get("judged_by") or {}).get("holdout"))
