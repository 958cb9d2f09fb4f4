"""Computes the numbers of a campaign: complexity, count of tasks, lines to read, tool calls.

The complexity counts the `##` headers of the objective (`sections`) and the cost of remembered failures, in thousands.
The exploration supplies these failures; without them, the goal does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from schemas.kinds.campaign import LEAST_CONFIDENCE
from tasks.strategies.campaign.frameworks import framework
from tasks.strategies.campaign.state import Knowledge

MAX_DESIGNED = 7
LEAST_BUDGET, MOST_BUDGET = 5, 9  # tool calls: the least are for reading, writing, verifying and two more
LINES_BEFORE, LINES_AFTER = 5, 15
_FINE = 6  # significant digits: further digits are rounding errors


def failure_cost_k(costs: Iterable[float]) -> float:
    """Return the summed cost of failures, in thousands."""
    return round(math.fsum(costs) / 1000, _FINE)


def complexity(known: Knowledge) -> float:
    """Return C, the complexity of a campaign."""
    return round(known.sections * 2 + known.cost_k / 5 + framework(known.framework).weight * 3, _FINE)


def task_count(complexity: float) -> int:
    """Return the number of tasks for a campaign of this complexity."""
    return min(MAX_DESIGNED, max(1, math.ceil(complexity / 5)))


def budget_of(delta: Sequence[str], known: Knowledge) -> int:
    """Return the number of tool calls for a task with these files."""
    harder = bool(known.failures) or known.confidence >= LEAST_CONFIDENCE
    extra = max(0, len(delta) - 1) + (2 if harder else 0)
    return min(MOST_BUDGET, LEAST_BUDGET + extra)


def target_lines_of(delta: Sequence[str], known: Knowledge) -> dict[str, str]:
    """Return the range of lines to read in each file of `delta` with known functions, such as "12-80".

    The functions are those that the exploration found, else those that the goal's definitions list.
    """
    seen = {each.path: each for each in (*known.defined, *known.candidates) if each.first}
    places = {path: seen[path] for path in delta if path in seen}
    return {path: f"{max(1, at.first - LINES_BEFORE)}-{at.last + LINES_AFTER}" for path, at in places.items()}
