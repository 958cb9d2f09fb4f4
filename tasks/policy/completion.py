"""When a plan is over (DESIGN.md section 5, "end of a plan"): never a silent dead end."""

from __future__ import annotations

from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.stored import PlanRecord
from tasks.fold import Fold
from tasks.policy import budget, halting
from tasks.policy.lifecycle import PLAN_ENDS

ENDED = PLAN_ENDS | {P.CREATED.value, P.VALIDATING.value}  # nothing runs in these, yet or any more


def is_satisfied(plan: PlanRecord) -> bool:
    """Whether every step is done, or was skipped by an operator."""
    done: int = plan.counts.get(S.DONE.value, 0) + plan.halting.get("skipped_by_operator", 0)
    return done == sum(plan.counts.values())


def finish(fold: Fold) -> None:
    """End the plan when nothing is in flight, ready or left over: COMPLETED if every step is satisfied, else HALTED."""
    plan = fold.plan
    if plan.state != P.EXECUTING or fold.view.active or fold.change.more:
        return
    if fold.ready:
        out_of = None if plan.paused else budget.exhausted(plan)
        if out_of:
            used = plan.spent[out_of]
            evidence = {"value": used, "limit": plan.limits[out_of], "limit_name": out_of, "spent": plan.spent}
            halting.halt(fold, "budget", f"the budget of {out_of} is used up", evidence)
        return
    if plan.waits:
        return
    counts = plan.counts
    if is_satisfied(plan):
        fold.move_plan(P.COMPLETED.value, "completed")
    else:
        fold.move_plan(P.REVISING.value, "revising", reason="steps failed and nothing else can run")
        halting.halt(
            fold,
            "cannot_revise",
            "steps failed and no revision is left that could help",
            {"value": counts.get(S.FAILED.value, 0), "limit": 0, "counts": dict(counts)},
        )
