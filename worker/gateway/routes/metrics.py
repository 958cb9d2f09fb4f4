"""`GET /metrics`: what all workers share, and what this gateway has counted, for Prometheus."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from schemas.api_key import Right
from worker.gateway import openapi
from worker.gateway.access import Access, having
from worker.gateway.problems import Refusal
from worker.telemetry.metrics_server import Collect, build_info, exposition
from worker.telemetry.shared_state import SharedState

router = APIRouter(tags=["fleet"])

TEXT: dict[int | str, Any] = {200: openapi.response("The text format of Prometheus.", {"type": "string"}, "text/plain")}


@router.get("/metrics", response_class=Response, responses={**TEXT, **openapi.problems(403)})
def metrics(request: Request, caller: Annotated[Access, Depends(having(Right.VIEWER))]) -> Response:
    """Tell Prometheus figures of all tenants together; a key of one tenant, or of repositories, may not see them."""
    if not caller.key.sees_all:
        raise Refusal("no_right", "These figures are of all tenants: a key of one may not see them.", 403)
    shared: SharedState = request.app.state.shared
    counts: Collect = request.app.state.counts
    return Response(exposition(build_info, shared.collect, counts), media_type=CONTENT_TYPE_LATEST)
