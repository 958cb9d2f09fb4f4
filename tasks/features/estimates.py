"""What attempts used, for the estimates of later plans.

Each attempt whose controller says how many tokens it used leaves that in the commit of its outcome. A plan reads it
when it is made, and estimates the steps that are added to it later as it did its first ones.
"""

from __future__ import annotations

from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import ADDED, AT_BIRTH, JUDGES, Feature, Judgement, always
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.budget import used_tokens
from tasks.rules.estimates import with_estimate
from tasks.rules.strategy import Draft


def keep_learned(unit: UnitOfWork, plan_seed: PlanSeed, _: Goal, __: Draft) -> None:
    """Keep what was learned when the plan was made."""
    unit.plan.head.learned = dict(plan_seed.learned) or None


def assign_added(unit: UnitOfWork, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Give steps that are added to a plan the estimates that it was made with."""
    learned = unit.plan.head.learned
    return tuple(with_estimate(step, learned) for step in steps) if learned else steps


def note(unit: UnitOfWork, seen: Judgement) -> bool:
    """Leave to later plans what an attempt used, if its controller said so."""
    if used := used_tokens(seen.step.facts, seen.outcome.metrics):
        unit.change.used.append(used)
    return False


FEATURE = Feature("estimates", (AT_BIRTH.row(keep_learned), JUDGES.row(note), ADDED.row(assign_added)), is_idle=always)
