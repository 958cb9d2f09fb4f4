"""Finds steps that would only repeat a verification that a change has passed, on the same tree; they are left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schemas.base import Mode
from schemas.step import PlannedStep, VerifyTool


def only_repeats(tools: Sequence[VerifyTool], before: PlannedStep, excused: Collection[str] = ()) -> bool:
    """Return whether the change `before` has passed all `tools` once it is done.

    A check whose failures from before the plan do not count there has to be `excused` here, too.
    """
    lenient = frozenset(before.quick_checks).difference(excused)
    passed = {(tool.key, tool.strict) for tool in before.verify_tools if tool.tool not in lenient}
    return before.mode is Mode.PATCH and bool(tools) and all((tool.key, tool.strict) in passed for tool in tools)
