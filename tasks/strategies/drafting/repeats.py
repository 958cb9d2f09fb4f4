"""Detects a step that would only repeat the verification of the change before it, on the same tree."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schemas.base import Mode
from schemas.step import PlannedStep, VerifyTool


def only_repeats(tools: Sequence[VerifyTool], before: PlannedStep, excused: Collection[str] = ()) -> bool:
    """Return whether the change `before`, once it is DONE, has already passed all of `tools`.

    A check for which failures from before the plan do not count proves less. It only counts as passed if `excused`
    names it.
    """
    lenient = frozenset(before.quick_checks).difference(excused)
    passed = {(tool.key, tool.strict) for tool in before.verify_tools if tool.tool not in lenient}
    return before.mode is Mode.PATCH and bool(tools) and all((tool.key, tool.strict) in passed for tool in tools)
