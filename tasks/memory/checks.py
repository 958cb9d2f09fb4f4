"""What recorded attempts teach about checks: which failures a step meets often, and which checks find anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from schemas.base import FailureCategory as C
from tasks.memory.alike import ENOUGH, OFTEN, Past
from tasks.memory.outcomes import Attempted
from tasks.toolchain.contract import Contract, ToolCategory

SEES: Mapping[str, ToolCategory] = {C.LINT_ERROR: ToolCategory.LINT, C.TYPE_ERROR: ToolCategory.TYPE_CHECK}
MANY_RUNS = 20  # of a check that found nothing


def met_often(past: Past | None) -> tuple[str, ...]:
    """Return the categories that more than a fifth of similar attempts failed with; empty if too few are known."""
    if past is None or past.attempts < ENOUGH:
        return ()
    return tuple(category for category, share in past.shares.items() if share > OFTEN)


def accepted_tools(records: Iterable[Attempted]) -> frozenset[str]:
    """Return the ids of the tools that an accepted change passed.

    Records without files do not count: a step that runs at the plan's base accepts each finding of its tools.
    """
    return frozenset(tool for each in records if each.files and not each.category for tool in each.tools)


def never_red(records: Iterable[Attempted], contracts: Mapping[str, Contract]) -> frozenset[str]:
    """Return the ids of linters and type checkers that passed in `MANY_RUNS` accepted attempts and found nothing."""
    runs: Counter[str] = Counter()
    found: set[ToolCategory] = set()
    for record in records:
        if record.category in SEES:
            found.add(SEES[record.category])
        elif record.files and not record.category:
            runs.update(record.tools)
    seeing = {*SEES.values()} - found
    return frozenset(
        tool
        for tool, times in runs.items()
        if times >= MANY_RUNS and tool in contracts and contracts[tool].category in seeing
    )
