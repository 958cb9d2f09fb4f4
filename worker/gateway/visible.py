"""The plans that a caller may look at: its tenant's, of its repositories. Others do not exist for it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from schemas.api_key import Right
from schemas.plan import PlanSummary
from worker.gateway.access import Access, having
from worker.gateway.context import Context, Doors
from worker.gateway.problems import Refusal
from worker.store import queries
from worker.store.keys import PLAN_ID

PlanReader = Annotated[Access, Depends(having(Right.VIEWER, Right.PRODUCER, Right.OPERATOR, Right.ANSWER))]


def find_plan(doors: Context, caller: Access, plan_id: str) -> PlanSummary:
    """Find a plan; raises Refusal 404 where there is none, and for another's."""
    found = queries.summary(doors.client, doors.partitions, plan_id) if PLAN_ID.fullmatch(plan_id) else None
    if found is None or not caller.may_see(found.tenant, found.repo):
        raise Refusal("no_such_plan", f"There is no plan {plan_id[:60]}.", 404)
    return found


def _plan(plan_id: str, caller: PlanReader, doors: Doors) -> PlanSummary:
    return find_plan(doors, caller, plan_id)


Plan = Annotated[PlanSummary, Depends(_plan)]
