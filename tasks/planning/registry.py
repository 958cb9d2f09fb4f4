"""Which strategy plans which kind of goal: exactly one, the module of this package that has the kind's name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import cast

from schemas.base import GoalKind
from tasks.planning.draft import Strategy


@cache
def strategy_of(kind: GoalKind) -> Strategy | None:
    """Find the strategy of `kind`; None where it has none yet."""
    name = f"tasks.planning.{kind.value}"
    return cast("Strategy", import_module(name)) if find_spec(name) else None
