"""The numbers of a campaign: complexity, tasks, lines to look at, tool calls.

`sections` are the `##` headers of the objective; the failure cost is that of the failures which the exploration, or
else the goal, hands over as fitting the objective, in thousands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from schemas.kinds.campaign import LEAST_CONFIDENCE
from tasks.strategies.campaign.frameworks import framework
from tasks.strategies.campaign.state import Knowledge

MAX_DESIGNED = 7
LEAST_BUDGET, MOST_BUDGET = 5, 9  # tool calls: the least are reading, writing, verifying and two more
LINES_BEFORE, LINES_AFTER = 5, 15
_FINE = 6  # digits that count: below them is what floats make up


def failure_cost_k(costs: Iterable[float]) -> float:
    """Sum the costs of failures, in thousands."""
    return round(math.fsum(costs) / 1000, _FINE)


def complexity(sections: int, cost_k: float, level: int) -> float:
    """Compute C, how complex a campaign is."""
    return round(sections * 2 + cost_k / 5 + level * 3, _FINE)


def task_count(score: float) -> int:
    """Say how many tasks a campaign of this complexity is for."""
    return min(MAX_DESIGNED, max(1, math.ceil(score / 5)))


def target_lines(first: int, last: int) -> str:
    """Say which lines hold the functions that begin at `first` to `last`."""
    return f"{max(1, first - LINES_BEFORE)}-{last + LINES_AFTER}"


def budget(files: int, *, prior_failures: bool, sure_framework: bool) -> int:
    """Say how many tool calls a task over `files` files has."""
    extra = max(0, files - 1) + (2 if prior_failures or sure_framework else 0)
    return min(MOST_BUDGET, LEAST_BUDGET + extra)


def score(known: Knowledge) -> float:
    """Say how complex the campaign is."""
    return complexity(known.sections, known.cost_k, framework(known.framework).weight)


def budget_of(delta: Sequence[str], known: Knowledge) -> int:
    """Say how many tool calls a task over these files has."""
    sure_framework = known.confidence >= LEAST_CONFIDENCE
    return budget(len(delta), prior_failures=bool(known.failures), sure_framework=sure_framework)


def target_lines_of(delta: Sequence[str], known: Knowledge) -> dict[str, str]:
    """Say where in these files the functions are that the exploration found."""
    seen = {each.path: each for each in known.candidates if each.first}
    return {path: target_lines(seen[path].first, seen[path].last) for path in delta if path in seen}


def first_function(known: Knowledge) -> str:
    """Name the first function that was found, and its line."""
    found = (f"{each.function}@{each.first}" for each in known.candidates if each.first)
    return next(found, "no functions known")
