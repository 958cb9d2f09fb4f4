"""The strategy of each kind of goal: exactly one, in the package of this folder with the kind's name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import cast

import tasks.strategies
from schemas.base import GoalKind
from tasks.rules.strategy import Strategy, Workflow


@cache
def strategy_of(kind: GoalKind) -> Strategy:
    """Return the strategy of `kind`."""
    return cast("Strategy", import_module(f"tasks.strategies.{kind.value}"))


def discover_workflows() -> dict[GoalKind, Workflow]:
    """Return the workflow of each kind of goal, from every package of this folder that contains a strategy.

    Raises ValueError if a package contains no workflow or several, or if no kind has its name.
    """
    found: dict[GoalKind, Workflow] = {}
    for package in iter_modules(tasks.strategies.__path__):
        module, name = f"tasks.strategies.{package.name}.strategy", package.name
        if not package.ispkg or find_spec(module) is None:
            continue
        values = vars(import_module(module)).values()
        workflows = [value for value in values if isinstance(value, Workflow)]
        if len(workflows) != 1:
            raise ValueError(f"tasks.strategies.{name} has {len(workflows)} workflows, and one is needed.")
        found[GoalKind(name)] = workflows[0]
    return found
