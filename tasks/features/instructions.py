"""Stores with the plan why its agents did not get the repository's own instructions."""

from __future__ import annotations

from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import JUDGES, Feature, Judgement, always


def keep_left_out(unit: UnitOfWork, seen: Judgement) -> bool:
    """Store the reason why an agent did not get the instructions, if the outcome reports it. Always returns false."""
    reported = seen.outcome.instructions
    if reported and reported.left_out:
        unit.plan.instructions.left_out = fit_evidence(reported.left_out)
        unit.plan.dirty.add("live")
    return False


FEATURE = Feature("instructions", (JUDGES.row(keep_left_out, told="instructions"),), is_idle=always)
