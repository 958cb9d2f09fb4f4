"""`/plans/{plan_id}/timeline`: every attempt of a plan over time, by controller, each with its figures."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from worker.gateway.context import Doors
from worker.gateway.page import gantt
from worker.gateway.page.plan_story import read_told
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute, note_position
from worker.gateway.visible import Plan, view_of
from worker.store.step_activity import with_activity

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[Depends(note_position)])

MOST_LANES = 200  # on one page

Number = Annotated[int, Query(ge=0, le=1_000_000)]


@router.get("/plans/{plan_id}/timeline")
def time_line(
    request: Request,
    plan: Plan,
    doors: Doors,
    controller: Annotated[str | None, Query(max_length=300)] = None,
    first: Number = 0,
) -> Response:
    """Show the attempts of a plan from number `first` on, of one controller where it is named."""
    view = view_of(doors, plan.plan_id)
    told = read_told(doors, view, with_activity(doors.client, doors.partitions, view).steps)
    attempts = [each for each in told.attempts if controller in (None, gantt.name_of(each))]
    return render(
        request,
        "time_line.html",
        plan=view,
        gantt=gantt.lay_out(attempts, told.now, first=first, most=MOST_LANES),
        now=told.now,
        length=gantt.length,
        controller=controller,
        most=MOST_LANES,
    )
