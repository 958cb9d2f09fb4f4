"""Day budgets of tenants and repositories: what a decision takes from a partition's grants.

What an attempt holds is taken from every grant that counts for its plan, what it did not use is given back on the
same day. A grant that does not suffice is refilled outside of the commit, and the plan is looked at again.
"""

from __future__ import annotations

from schemas.stored import Attempt
from schemas.times import DAY_MS
from tasks.plan.unit_of_work import UnitOfWork
from tasks.rules import budget


def allowance(unit: UnitOfWork, wanted: int) -> int | None:
    """Say how many of `wanted` tokens the grants leave to an attempt; None where it cannot start now."""
    for scope, grant in unit.snapshot.grants.items():
        left = grant.left - unit.tokens_used
        if left < wanted or left <= 0:
            _note(unit)
            if not grant.exhausted:
                unit.change.short[scope] = max(1, wanted - left)
            if left <= 0 or not grant.exhausted:
                unit.change.more |= grant.exhausted  # the next look finds that the plan is held, and until when
                return None
            wanted = left
    return wanted


def _note(unit: UnitOfWork) -> None:
    """Keep in the log what the grants had left, where that made a difference."""
    told = ["grants", {scope: [*grant] for scope, grant in unit.snapshot.grants.items()}]
    if told not in unit.inputs:
        unit.inputs.append(told)


def book(unit: UnitOfWork, attempt: Attempt, *, claimed: bool) -> None:
    """Settle an attempt that ended without an outcome: all that it held is spent, or nothing if nobody claimed it."""
    if claimed:
        budget.forfeit(unit.plan, attempt)
    else:
        budget.release(unit.plan, attempt)
        lapse(unit, attempt, 0)


def lapse(unit: UnitOfWork, attempt: Attempt, used: int) -> None:
    """Note that `attempt` ended having used so many tokens: what it held of another day went with that day."""
    if attempt.at // DAY_MS != unit.snapshot.now // DAY_MS:
        unit.lapsed += max(0, attempt.tokens - used)


def settle(unit: UnitOfWork) -> None:
    """Note what this decision takes from the grants."""
    if used := unit.tokens_used:
        unit.change.taken = dict.fromkeys(unit.snapshot.grants, used)
    if unit.change.dispatches:
        unit.change.rests_on = {scope: grant.left for scope, grant in unit.snapshot.grants.items()}
