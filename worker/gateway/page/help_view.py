"""`/help`: the keyboard shortcuts of the page."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from worker.gateway.page.rendering import PageRoute, render
from worker.gateway.visible import PlanReader

router = APIRouter(route_class=PageRoute, include_in_schema=False)

KEYS = {
    "j": "the next plan of the list",
    "k": "the plan before it",
    "Enter": "open the plan",
    "x": "select the plan, or not",
    "/": "search",
    "?": "this page",
}


@router.get("/help")
def keys(request: Request, _: PlanReader) -> Response:
    """Show the keyboard shortcuts."""
    return render(request, "help.html", keys=KEYS)
