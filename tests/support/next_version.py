"""The next version of the planner, as this version meets it.

One of its rules has changed, and its plans continue under policy version 2. Its function libraries are newer, and its
layout may be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from schemas.stored import PlanRecord
from schemas.stored.step import LAYOUT
from tasks.base.policy_version import POLICY_VERSION, ChangedRule
from tasks.rules import budget
from worker.store import functions
from worker.store.keys import DEPLOYMENT

NEXT_VERSION = POLICY_VERSION + 1
NEWER_LAYOUT = LAYOUT + 1
NEW_FUNCTION = "planner_of_the_next_version"
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


def load_libraries(client: Redis) -> None:
    """Load every library as the next version has it: its version is higher, and one has a function more."""
    for library in functions.LIBRARIES:
        text = functions.source(library).replace(
            f"-- version {functions.VERSION}", f"-- version {functions.VERSION + 1}"
        )
        if library == "planner_plans":
            text += f"\nredis.register_function('{NEW_FUNCTION}', function() return 'new' end)\n"
        client.function_load(text, replace=True)


def raise_layout(client: Redis, partitions: int = 1) -> None:
    """Have records of the next version's layout there."""
    client.hset(DEPLOYMENT, mapping={"partitions": partitions, "layout": NEWER_LAYOUT})
