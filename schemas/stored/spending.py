"""The spending of a plan, and the facts of it that explain a halt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from schemas.stored.part import Part

Usage: TypeAlias = dict[str, int]
Spender: TypeAlias = list[Any]  # step, attempt and how much it used

USAGE_NAMES = ("tokens", "patch_cycles", "tool_calls", "failing_outcomes")


@dataclass(slots=True)
class Spending(Part):
    """Facts of the spending in addition to the sums (tasks/rules/budget.py, tasks/plan/end_sum.py)."""

    spenders: dict[str, list[Spender]] = field(default_factory=dict)  # budget -> who used most of it
    cut_short: Usage = field(default_factory=dict)  # by how much attempts were given less than was expected
    unbooked: int = 0  # tokens beyond the limit
    cost: int | None = None  # of the attempts, by reports of controllers, in millionths of a dollar
