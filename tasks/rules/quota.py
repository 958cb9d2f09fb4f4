"""Day budgets of tenants and repositories: what a decision takes from a partition's grants.

What an attempt holds is taken from every grant that counts for its plan, what it did not use is given back on the
same day. A grant that does not suffice is refilled outside of the commit, and the plan is looked at again.
"""

from __future__ import annotations

from schemas.stored import Attempt
from schemas.times import DAY_MS
from tasks.plan.unit_of_work import Fold
from tasks.rules import budget


def allowed(fold: Fold, wanted: int) -> int | None:
    """Say how many of `wanted` tokens the grants leave to an attempt; None where it cannot start now."""
    for scope, grant in fold.view.grants.items():
        left = grant.left - fold.tokens_used
        if left < wanted or left <= 0:
            _note(fold)
            if not grant.exhausted:
                fold.change.short[scope] = max(1, wanted - left)
            if left <= 0 or not grant.exhausted:
                fold.change.more |= grant.exhausted  # the next look finds that the plan is held, and until when
                return None
            wanted = left
    return wanted


def _note(fold: Fold) -> None:
    """Keep in the log what the grants had left, where that made a difference."""
    told = ["grants", {scope: [*grant] for scope, grant in fold.view.grants.items()}]
    if told not in fold.inputs:
        fold.inputs.append(told)


def book(fold: Fold, attempt: Attempt, *, claimed: bool) -> None:
    """Settle an attempt that ended without an outcome: all that it held is spent, or nothing if nobody claimed it."""
    if claimed:
        budget.forfeit(fold.plan, attempt)
    else:
        budget.release(fold.plan, attempt)
        lapse(fold, attempt, 0)


def lapse(fold: Fold, attempt: Attempt, used: int) -> None:
    """Note that `attempt` ended having used so many tokens: what it held of another day went with that day."""
    if attempt.at // DAY_MS != fold.view.now // DAY_MS:
        fold.lapsed += max(0, attempt.tokens - used)


def settle(fold: Fold) -> None:
    """Note what this decision takes from the grants."""
    if used := fold.tokens_used:
        fold.change.taken = dict.fromkeys(fold.view.grants, used)
    if fold.change.dispatches:
        fold.change.rests_on = {scope: grant.left for scope, grant in fold.view.grants.items()}
