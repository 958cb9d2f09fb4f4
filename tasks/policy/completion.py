"""When a plan is over: never a silent dead end."""

from __future__ import annotations

from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.stored import PlanRecord
from schemas.times import rfc3339
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import expansion, halt
from tasks.rules import budget

ENDED = PLAN_ENDS | {P.CREATED.value, P.VALIDATING.value}  # nothing runs in these, yet or any more


def is_satisfied(plan: PlanRecord) -> bool:
    """Whether every step is done, was skipped by an operator, or failed and others were put in its place."""
    done: int = plan.counts.get(S.DONE.value, 0) + plan.halting.get("skipped_by_operator", 0)
    return done + int(plan.halting.get("replaced", 0)) == sum(plan.counts.values())


def finish(unit: UnitOfWork) -> None:
    """End the plan when nothing is in flight, ready or left over: COMPLETED if every step is satisfied, else HALTED."""
    plan = unit.plan
    if plan.state not in (P.READY, P.EXECUTING) or unit.snapshot.active or unit.change.more:
        return
    if unit.ready:
        out_of = None if unit.is_stopped else budget.first_exhausted(plan)
        if out_of:
            used = plan.spent[out_of]
            evidence = {"value": used, "limit": plan.limits[out_of], "limit_name": out_of, "spent": plan.spent}
            if out_of != "failing_outcomes":  # it was not failures that led to it, but all that was done since
                evidence["started_at"] = rfc3339(plan.times.get("started", plan.times["ready"]))
            halt.halt(unit, "budget", f"the budget of {out_of} is used up", evidence)
        return
    if plan.waits or plan.backoffs or plan.question:
        return
    if unit.snapshot.ready_beyond:  # what was read of the queue has ended, what is behind it has not
        unit.change.more = True
        return
    if plan.state == P.READY:  # an operator left nothing of it before its first step
        plan.times["started"] = unit.snapshot.now
        unit.move_plan(P.EXECUTING.value, "executing")
    counts = plan.counts
    if is_satisfied(plan):
        unit.move_plan(P.COMPLETED.value, "completed")
    elif expansion.rescue(unit):
        unit.change.more = plan.state not in PLAN_ENDS  # its new steps start in a next look
    else:
        unit.move_plan(P.REVISING.value, "revising", reason="steps failed and nothing else can run")
        halt.halt(
            unit,
            "cannot_revise",
            "steps failed and no revision is left that could help",
            {"value": counts.get(S.FAILED.value, 0), "limit": 0, "limit_name": "failed_steps", "counts": dict(counts)},
        )
