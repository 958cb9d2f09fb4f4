"""The plans that a caller may look at: its tenant's, of its repositories. Others do not exist for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends

from schemas.api_key import Right
from schemas.plan import PlanSummary
from worker.gateway.access import Access, having
from worker.gateway.context import Context, Doors
from worker.gateway.problems import Refusal
from worker.store import plan_lists, queries
from worker.store.keys import PLAN_ID
from worker.store.plan_lists import PlanFilter

READ_RIGHTS = (Right.VIEWER, Right.PRODUCER, Right.OPERATOR, Right.ANSWER)  # each of them lets a key look at plans
PlanReader = Annotated[Access, Depends(having(*READ_RIGHTS))]


def find_plan(doors: Context, caller: Access, plan_id: str) -> PlanSummary:
    """Find a plan; raises Refusal 404 where there is none, and for another's."""
    found = queries.summary(doors.client, doors.partitions, plan_id) if PLAN_ID.fullmatch(plan_id) else None
    if found is None or not caller.may_see(found.tenant, found.repo):
        raise Refusal("no_such_plan", f"There is no plan {plan_id[:60]}.", 404)
    return found


def _plan(plan_id: str, caller: PlanReader, doors: Doors) -> PlanSummary:
    return find_plan(doors, caller, plan_id)


Plan = Annotated[PlanSummary, Depends(_plan)]


def list_plans(doors: Context, caller: Access, wanted: PlanFilter, limit: int, cursor: str | None) -> queries.Page:
    """Read a page of the plans that are wanted, as far as they are the caller's; raises WrongCursor."""
    ours = caller.key.tenant
    if ours and wanted.tenant not in (None, ours):
        return queries.Page([], None)
    found = queries.page(doors.client, doors.partitions, replace(wanted, tenant=ours or wanted.tenant), limit, cursor)
    return found._replace(items=[each for each in found.items if caller.may_see(each.tenant, each.repo)])


def count_states(doors: Context, caller: Access) -> dict[str, int] | None:
    """Count the plans in each state, for keys of all tenants and repositories alone."""
    return plan_lists.count_states(doors.client, doors.partitions) if caller.key.sees_all else None
