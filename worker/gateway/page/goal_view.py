"""`/goals`: the state of a goal; redirects to its plan as soon as there is one."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from schemas.base import GoalId, GoalVerdict, Name
from schemas.plan import GoalAnswer
from worker.gateway.access import Access, Doors
from worker.gateway.page import goal_form
from worker.gateway.page.rendering import HEADERS, PageRoute, render
from worker.gateway.routes.goals import SeesGoals, errors_of, find_goal
from worker.gateway.visible import READ_RIGHTS
from worker.store.keys import NO_TENANT

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SEE_OTHER = 303
WITH_PLAN = frozenset({GoalVerdict.PLANNED, GoalVerdict.NEEDS_INPUT})


@router.get("/goals")
def goal(
    request: Request,
    caller: SeesGoals,
    doors: Doors,
    goal_id: Annotated[GoalId, Query()],
    tenant: Annotated[Name | None, Query()] = None,
) -> Response:
    """Show the state of a goal, or redirect to its plan."""
    answer, owner = find_goal(doors, caller, goal_id, tenant)
    if address := plan_address(answer, caller):
        return RedirectResponse(address, SEE_OTHER, HEADERS)
    return render(
        request,
        "goal.html",
        answer=answer,
        address=goal_address(caller, goal_id, owner),
        complaints=goal_form.complaints(errors_of(doors, answer)),
    )


def plan_address(answer: GoalAnswer, caller: Access) -> str | None:
    """Return the address of a goal's plan; None if there is none, or the caller may not see it."""
    may_look = any(caller.key.may(right) for right in READ_RIGHTS)
    return f"/plans/{answer.plan_id}" if answer.verdict in WITH_PLAN and may_look else None


def goal_address(caller: Access, goal_id: str, tenant: str) -> str:
    """Return the address of a goal's page."""
    whose = {} if caller.key.tenant or tenant == NO_TENANT else {"tenant": tenant}
    return f"/goals?{urlencode({'goal_id': goal_id, **whose})}"
