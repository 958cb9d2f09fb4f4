"""`/v1/stats`: the spend of fleets and the ends of their plans, over up to 90 days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from schemas.api_key import Right
from schemas.base import Name
from schemas.stats import StatsBy, StatsView
from schemas.times import milliseconds
from worker.gateway import openapi
from worker.gateway.access import Access, Context, Doors, having
from worker.gateway.problems import Refusal
from worker.gateway.responses import Moment, json
from worker.gateway.routes.fleet import FleetReader
from worker.store import sums
from worker.store.sums import Wanted
from worker.telemetry.metrics_server import Collect, build_info, exposition
from worker.telemetry.shared_state import SharedState

router = APIRouter(tags=["fleet"])

NOBODY = "\0"  # a tenant that no goal can have
TEXT: dict[int | str, Any] = {200: openapi.response("The text format of Prometheus.", {"type": "string"}, "text/plain")}


@router.get("/v1/stats", response_model=StatsView)
def stats(
    caller: FleetReader,
    doors: Doors,
    since: Annotated[Moment | None, Query()] = None,
    until: Annotated[Moment | None, Query()] = None,
    by: StatsBy = StatsBy.DAY,
    tenant: Annotated[Name | None, Query()] = None,
    repo: Annotated[Name | None, Query()] = None,
) -> Response:
    """Add up the plans that ended since a time, by default seven days ago; some keys see only their own plans."""
    since = since or datetime.now(UTC) - timedelta(days=7)
    end = milliseconds(until) if until else None
    (found,) = find_stats(doors, caller, Wanted(milliseconds(since), end, by, tenant, repo), (by,))
    return json(found)


def find_stats(doors: Context, caller: Access, wanted: Wanted, bys: Sequence[StatsBy]) -> list[StatsView]:
    """Return the totals over ended plans that a caller may see, one view for each of `bys`."""
    ours = caller.key.tenant
    tenant = NOBODY if ours and wanted.tenant not in (None, ours) else ours or wanted.tenant
    mine = Wanted(wanted.since, wanted.until, wanted.by, tenant, wanted.repo, caller.key.repositories)
    return sums.read_all(doors.client, doors.partitions, mine, bys)


@router.get("/metrics", response_class=Response, responses={**TEXT, **openapi.problems(403)})
def metrics(request: Request, caller: Annotated[Access, Depends(having(Right.VIEWER))]) -> Response:
    """Return metrics of all tenants for Prometheus; a key of one tenant, or of repositories, may not see them."""
    if not caller.key.sees_all:
        raise Refusal("no_right", "These figures are of all tenants: a key of one may not see them.", 403)
    shared: SharedState = request.app.state.shared
    counts: Collect = request.app.state.counts
    return Response(exposition(build_info, shared.collect, counts), media_type=CONTENT_TYPE_LATEST)
