"""`/review`: everything that waits for a person, the oldest first, with the minutes that it takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fastapi import APIRouter, Request, Response

from schemas.base import PlanState
from worker.gateway.access import Doors
from worker.gateway.page.rendering import PageRoute, render
from worker.gateway.responses import MOST_ITEMS
from worker.gateway.visible import PlanReader, list_plans
from worker.render.review import to_review
from worker.store.plan_lists import PlanFilter

router = APIRouter(route_class=PageRoute, include_in_schema=False)

DAYS = 30  # for which a delivered change is looked for
UPDATE_MS = 15_000  # between two updates, at least


@router.get("/review")
def review(request: Request, caller: PlanReader, doors: Doors) -> Response:
    """List questions, approvals and delivered changes that wait for a person."""
    since = datetime.now(UTC) - timedelta(days=DAYS)
    asked = (PlanFilter(waiting=True), PlanFilter(state=PlanState.COMPLETED, since=since))
    pages = [list_plans(doors, caller.sight, each, MOST_ITEMS, None) for each in asked]
    found = to_review(plan for page in pages for plan in page.items)
    is_all = not any(page.next_cursor for page in pages)
    return render(request, "review.html", found=found, is_all=is_all, days=DAYS, most=MOST_ITEMS, update_ms=UPDATE_MS)
