"""Which strategy plans which kind of goal: exactly one, the module of this package that has the kind's name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import cast

from schemas.base import GoalKind
from tasks.rules.strategy import Strategy


@cache
def strategy_of(kind: GoalKind) -> Strategy:
    """Find the strategy of `kind`."""
    return cast("Strategy", import_module(f"tasks.strategies.{kind.value}"))
