"""Which rules a plan goes on under: those of the policy version that it began with.

A plan keeps the version that was newest when it was made (`policy_version` of its head). Whoever changes how a decision
is made adds a row to `ChangedRule`, raises `POLICY_VERSION` if no row of this release has done so, and asks the row
where the decision is made: `if ChangedRule.X.holds(plan)`. How plans of older versions are decided stays in the `else`.
`tests/support/next_version.py` shows it with one row.
"""

from __future__ import annotations

from enum import Enum

from schemas.stored import PlanRecord

POLICY_VERSION = 1  # of new plans


class ChangedRule(Enum):
    """A rule that is not what it was: the first version in which it holds, and the rule as a sentence. None is yet."""

    def __init__(self, since: int, sentence: str) -> None:
        self.since = since
        self.sentence = sentence

    def holds(self, plan: PlanRecord) -> bool:
        """Whether the plan goes on under this rule."""
        return plan.head.policy_version >= self.since


def is_newer(plan: PlanRecord) -> bool:
    """Whether the plan goes on under rules that this version does not know, so that only a newer worker may decide."""
    return plan.head.policy_version > POLICY_VERSION
