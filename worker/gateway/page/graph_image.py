"""`GET /v1/plans/{plan_id}/graph.svg`: the graph of a plan's page as a picture by itself."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Response
from markupsafe import Markup

from worker.gateway import openapi
from worker.gateway.access import Doors
from worker.gateway.page import graph
from worker.gateway.page.rendering import fragment
from worker.gateway.visible import Plan, view_of

MEDIA_TYPE = "image/svg+xml"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"  # its style is inline
RULES = re.compile(r"^\.graph .*$", re.MULTILINE)
COLOURS = re.compile(r":root \{[^}]*\}")

router = APIRouter(prefix="/v1/plans/{plan_id}", tags=["plans"], responses=openapi.problems(404))


@router.get("/graph.svg", responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}})
def picture(plan: Plan, doors: Doors) -> Response:
    """Draw the steps of a plan as a picture; bands of steps where there are many."""
    view = view_of(doors, plan.plan_id)
    svg = fragment(
        "graph_image.svg",
        graph=graph.lay_out(view.steps),
        plan=view,
        style=_style(),
        node_width=graph.WIDTH,
        node_height=graph.HEIGHT,
    )
    return Response(svg, media_type=MEDIA_TYPE, headers={"Content-Security-Policy": POLICY})


@cache
def _style() -> Markup:
    """Return the rules for graphs in the page's style sheet."""
    sheet = (files("worker.gateway.page") / "static" / "page.css").read_text()
    colours = COLOURS.search(sheet)
    assert colours  # noqa: S101 (the sheet is ours)
    return Markup("<style>{}</style>").format(Markup("\n".join([colours[0], *RULES.findall(sheet)])))  # noqa: S704
