"""Selects the rules of a plan: those of the policy version that it began with.

A plan keeps the version that was newest when it was created (`policy_version` of its head). To change how a decision is
made, add a row to `ChangedRule` and raise `POLICY_VERSION`, if no other row of this release has done so. Then ask the
row at the decision: `if ChangedRule.X.holds(plan)`. Its `else` keeps the decision for plans of older versions.
`tests/support/next_version.py` shows this with one row.
"""

from __future__ import annotations

from enum import Enum

from schemas.stored import PlanRecord

POLICY_VERSION = 1  # of new plans


class ChangedRule(Enum):
    """A changed rule: the first version that has it, and the rule as a sentence. There is none yet."""

    def __init__(self, since: int, sentence: str) -> None:
        self.since = since
        self.sentence = sentence

    def holds(self, plan: PlanRecord) -> bool:
        """Return whether this rule applies to the plan."""
        return plan.head.policy_version >= self.since


def is_newer(plan: PlanRecord) -> bool:
    """Return whether the plan's policy version is newer than this code; then only a newer worker may decide."""
    return plan.head.policy_version > POLICY_VERSION
