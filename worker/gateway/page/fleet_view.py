"""`/fleet`: queues, controllers, day budgets, and who owns the partitions."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request, Response

from schemas.api_key import Right
from worker.gateway.context import Doors
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute
from worker.gateway.routes.fleet import (
    FleetReader,
    find_breakers,
    find_budgets,
    find_controllers,
    find_queues,
    find_standing,
)
from worker.store import owners

router = APIRouter(route_class=PageRoute, include_in_schema=False)

UPDATE_MS = 5000  # between two updates: queues are found by a walk over all keys


@router.get("/fleet")
def fleet(request: Request, caller: FleetReader, doors: Doors) -> Response:
    """Show who waits, who works, and what a day still allows."""
    partitions = owners.owners(doors.client, doors.partitions) if caller.key.sees_all else {}
    return render(
        request,
        "fleet.html",
        queues=find_queues(doors, caller),
        controllers=find_controllers(doors, caller),
        budgets=find_budgets(doors, caller),
        workers=sorted(Counter(owner for owner in partitions.values() if owner).items()),
        partitions=partitions,
        standing=find_standing(doors, caller),
        breakers=find_breakers(doors, caller),
        may_act=caller.key.may(Right.OPERATOR),
        update_ms=UPDATE_MS,
    )
