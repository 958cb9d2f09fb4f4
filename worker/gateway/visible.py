"""The plans that a caller may look at: its tenant's, of its repositories. Others do not exist for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends

from schemas.api_key import Right
from schemas.plan import PlanSummary, PlanView
from tasks.plan import lists
from worker.gateway.access import Access, Sight, having
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


def view_of(doors: Context, plan_id: str) -> PlanView:
    """Read everything about a plan that the caller may see; raises Refusal 404 where it was forgotten just now."""
    view = queries.plan(doors.client, doors.partitions, plan_id)
    if view is None:
        raise Refusal("no_such_plan", f"There is no plan {plan_id}.", 404)
    return view


def list_plans(doors: Context, sight: Sight, wanted: PlanFilter, limit: int, cursor: str | None) -> queries.Page:
    """Read a page of the plans that are wanted, as far as they are seen; raises WrongCursor."""
    ours = sight.tenant
    if ours and wanted.tenant not in (None, ours):
        return queries.Page([], None)
    found = queries.page(doors.client, doors.partitions, replace(wanted, tenant=ours or wanted.tenant), limit, cursor)
    return found._replace(items=[each for each in found.items if sight.reaches(each.tenant, each.repo)])


def count_states(
    doors: Context, sight: Sight, tenant: str | None = None, repo: str | None = None
) -> dict[str, int] | None:
    """Count the plans in each state that are seen, of one tenant and repository where they are named.

    None where nobody knows, or where it would take too long.
    """
    ours, theirs = sight.tenant, sight.repositories
    if (ours and tenant not in (None, ours)) or (theirs and repo and repo not in theirs):
        return {}
    whose = [lists.of_tenant(name)] if (name := ours or tenant) else []
    repositories = [repo] if repo else theirs or [None]
    among = [[*whose, *([lists.of_repository(each)] if each else [])] for each in repositories]
    return plan_lists.count_states(doors.client, doors.partitions, among)
