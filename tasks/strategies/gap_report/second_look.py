"""Looks for the cause of a failure, once, after a fix failed for good and before the plan halts.

A tool's output names the place of a failure, and the patched file may not be the cause. So a step reads all files that
may change, gets the failure, and names the files at fault. These are then patched.
"""

from __future__ import annotations

from schemas.base import StepState
from schemas.kinds.gap_report import IterationPlan
from tasks.rules.strategy import End, Expansion, LivePlan
from tasks.strategies.gap_report.checks import category_of_tool
from tasks.strategies.gap_report.document import Iteration
from tasks.strategies.gap_report.evidence import runs_tests, tool_of
from tasks.strategies.gap_report.state import free_files, project_in, state_of
from tasks.strategies.gap_report.steps import explore_step
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.contract import ToolCategory

WHY = "The patches did not close the gap, and a step looks for the cause."


def note_failure(live: LivePlan, end: End) -> Expansion | None:
    """Store the failure in the state, for the step that may look for its cause; None if no such step may follow."""
    if end.state != StepState.FAILED or end.failure is None or not may_look_again(live):
        return None
    failure = {name: end.failure.get(name) for name in ("category", "failing_tests", "trace", "suggestion")}
    return Expansion({**live.state, "failure": failure}, live.document, "A step of the iteration has failed.")


def look_again(live: LivePlan, catalogue: Catalogue) -> Expansion | None:
    """Expand the plan by a step that looks for the cause among all files that may change.

    Return None if there was such a step, or if only the patched files can be the cause.
    """
    if not may_look_again(live):
        return None
    plan, state = IterationPlan.model_validate(live.document), state_of(live)
    tried = tuple(dict.fromkeys(path for action in plan.actions for path in action.target_files))
    files, tool = free_files(live), tool_of(plan.gap.description)
    if not runs_tests(tool) and (
        category_of_tool(catalogue, tool) is ToolCategory.LINT or not set(files).difference(tried)
    ):
        return None  # the place of a lint finding is its cause
    state = state.model_copy(update={"tried": tried})
    step = explore_step(Iteration(plan, project_in(live, files, catalogue), files, state))
    return Expansion(state.model_dump(mode="json"), live.document, WHY, (step,), replaces=True)


def may_look_again(live: LivePlan) -> bool:
    """Return whether a step may look for the cause: a tool reported the gap, and no step has searched for files."""
    if live.document is None or not live.state or state_of(live).tried:
        return False
    plan = IterationPlan.model_validate(live.document)
    return plan.gap.category.casefold() == "quality" and all(action.target_files for action in plan.actions)
