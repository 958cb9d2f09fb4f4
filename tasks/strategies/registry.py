"""Which strategy plans which kind of goal: exactly one, the package of this folder that has the kind's name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

from schemas.base import GoalKind
from tasks.rules.strategy import Strategy, Workflow


@cache
def strategy_of(kind: GoalKind) -> Strategy:
    """Find the strategy of `kind`."""
    return cast("Strategy", import_module(f"tasks.strategies.{kind.value}"))


def discover_workflows() -> dict[GoalKind, Workflow]:
    """Import every package of this folder that has a strategy, and list its one workflow.

    Raises ValueError where a package has none or several, or has not the name of a kind.
    """
    found: dict[GoalKind, Workflow] = {}
    for path in sorted(Path(__file__).parent.glob("*/strategy.py")):
        name = path.parent.name
        values = vars(import_module(f"tasks.strategies.{name}.strategy")).values()
        workflows = [value for value in values if isinstance(value, Workflow)]
        if len(workflows) != 1:
            raise ValueError(f"tasks.strategies.{name} has {len(workflows)} workflows, and one is needed.")
        found[GoalKind(name)] = workflows[0]
    return found
