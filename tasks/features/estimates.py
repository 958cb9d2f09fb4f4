"""Records how much attempts used, for the estimates of later plans.

If a controller reports the tokens of an attempt, the commit of its outcome records them. A plan reads the records at
its creation, and uses the same estimates for steps that are added later.
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
    """Store the learned estimates in the plan's head."""
    unit.plan.head.learned = dict(plan_seed.learned) or None


def assign_added(unit: UnitOfWork, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Give the plan's learned estimates to steps that are added to it."""
    learned = unit.plan.head.learned
    return tuple(with_estimate(step, learned) for step in steps) if learned else steps


def note(unit: UnitOfWork, seen: Judgement) -> bool:
    """Record the tokens of an attempt for later plans, if its controller reported them."""
    if used := used_tokens(seen.step.facts, seen.outcome.metrics):
        unit.change.used.append(used)
    return False


FEATURE = Feature("estimates", (AT_BIRTH.row(keep_learned), JUDGES.row(note), ADDED.row(assign_added)), is_idle=always)
