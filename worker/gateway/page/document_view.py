"""`/plans/{plan_id}/document`: what a plan's kind keeps beside the plan, as people read it."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from schemas import codec
from worker.gateway.context import Doors
from worker.gateway.page import graph
from worker.gateway.page.documents import sections_of
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute, note_position
from worker.gateway.visible import Plan, view_of

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[Depends(note_position)])

MOST_RAW = 500_000  # characters of the document as JSON


@router.get("/plans/{plan_id}/document")
def document(request: Request, plan: Plan, doors: Doors) -> Response:
    """Show the document of a plan, each kind in its own way, and as JSON below."""
    view = view_of(doors, plan.plan_id)
    raw = codec.pretty(view.document).decode() if view.document else ""
    return render(
        request,
        "document.html",
        plan=view,
        sections=sections_of(view.kind, view.document),
        raw=raw[:MOST_RAW],
        raw_is_cut=len(raw) > MOST_RAW,
        lay_out=graph.lay_out,
        node_width=graph.WIDTH,
        node_height=graph.HEIGHT,
    )
