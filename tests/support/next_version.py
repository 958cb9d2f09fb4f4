"""The next version: one rule has changed with it, and plans that it makes go on under policy version 2."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from schemas.stored import PlanRecord
from tasks.base.policy_version import POLICY_VERSION, ChangedRule
from tasks.rules import budget

NEXT_VERSION = POLICY_VERSION + 1
_first_exhausted = budget.first_exhausted


class NextRule(ChangedRule):
    """The rule that changes."""

    A_TENTH_IS_LEFT = (NEXT_VERSION, "A plan whose tokens are limited halts once it has spent nine tenths of them.")


def first_exhausted(plan: PlanRecord) -> str | None:
    """Decide as the next version does."""
    limit = plan.limits["tokens"]
    if NextRule.A_TENTH_IS_LEFT.holds(plan) and limit is not None and 10 * plan.spent["tokens"] >= 9 * limit:
        return "tokens"
    return _first_exhausted(plan)


@contextmanager
def next_version() -> Iterator[None]:
    """Have this process make and decide plans as the next version does."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] in ("tasks", "worker")]
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            if hasattr(module, "POLICY_VERSION"):
                patch.setattr(module, "POLICY_VERSION", NEXT_VERSION)
        patch.setattr(budget, "first_exhausted", first_exhausted)
        yield
