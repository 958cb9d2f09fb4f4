"""A budget that runs low is told of once, so that people can top it up in time."""

from __future__ import annotations

from tasks.plan.unit_of_work import Fold
from tasks.rules.budget import BUDGETS

WARN_SHARE = 0.8


def warn(fold: Fold) -> None:
    """Tell of every budget of which WARN_SHARE is spent, once each."""
    plan, limits = fold.plan, fold.plan.head.limits
    for name in BUDGETS:
        limit = limits[name]
        if limit and plan.spent[name] >= WARN_SHARE * limit and name not in plan.warned:
            plan.warned.append(name)
            plan.dirty.add("live")
            fold.tell("budget.low", {"budget": name, "spent": plan.spent[name], "limit": limit})
