"""`/fleet`: queues, controllers, day budgets, workers, and who owns the partitions."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from schemas.api_key import Right
from worker.gateway.context import Context, Doors
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute
from worker.gateway.routes.fleet import (
    FleetReader,
    find_breakers,
    find_budgets,
    find_fleet,
    find_standing,
)
from worker.store import backlog, owners
from worker.store.backlog import Backlog

router = APIRouter(route_class=PageRoute, include_in_schema=False)

UPDATE_MS = 5000  # between two updates


class WorkerLine(NamedTuple):
    """A worker that is there, or owns partitions; its version is None where it does not tell it."""

    token: str
    version: str | None
    owns: int


class PartitionLine(NamedTuple):
    """A partition, the worker that owns it, and what waits there."""

    number: int
    owner: str | None
    backlog: Backlog | None


@router.get("/fleet")
def fleet(request: Request, caller: FleetReader, doors: Doors) -> Response:
    """Show who waits, who works, and what a day still allows."""
    partitions = _partitions(doors) if caller.key.sees_all else []
    seen = find_fleet(doors, caller)
    return render(
        request,
        "fleet.html",
        queues=seen.queues,
        controllers=seen.controllers,
        elsewhere=seen.elsewhere,
        budgets=find_budgets(doors, caller),
        workers=_workers(doors, partitions) if partitions else [],
        partitions=partitions,
        standing=find_standing(doors, caller),
        breakers=find_breakers(doors, caller),
        may_act=caller.key.may(Right.OPERATOR),
        update_ms=UPDATE_MS,
    )


def _partitions(doors: Context) -> list[PartitionLine]:
    owned = owners.owners(doors.client, doors.partitions)
    waiting = backlog.read(doors.client, doors.partitions)
    return [PartitionLine(number, owned[number], waits) for number, waits in enumerate(waiting)]


def _workers(doors: Context, partitions: list[PartitionLine]) -> list[WorkerLine]:
    owns = Counter(each.owner for each in partitions if each.owner)
    told = {each.token: each.version for each in owners.workers(doors.client)}
    return [WorkerLine(token, told.get(token), owns[token]) for token in sorted(told.keys() | owns.keys())]
