"""`/fleet`: queues, controllers, day budgets, workers, and who owns the partitions."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from redis import Redis
from redis.exceptions import NoPermissionError

from schemas.api_key import Right
from worker.gateway.access import Context, Doors
from worker.gateway.page.rendering import PageRoute, render
from worker.gateway.routes.fleet import (
    FleetReader,
    find_budgets,
    find_fleet,
    find_standing,
)
from worker.store import open_breakers, owners
from worker.store.keys import Partition

router = APIRouter(route_class=PageRoute, include_in_schema=False)

UPDATE_MS = 5000  # between two updates


class WorkerLine(NamedTuple):
    """A live worker, or a worker that owns partitions; `version` is None if the worker does not report it."""

    token: str
    version: str | None
    owns: int


class PartitionLine(NamedTuple):
    """A partition, the worker that owns it, and its backlog."""

    number: int
    owner: str | None
    backlog: Backlog | None


@router.get("/fleet")
def fleet(request: Request, caller: FleetReader, doors: Doors) -> Response:
    """Show queues, controllers and workers, and the remaining budgets of the day."""
    partitions = _partitions(doors) if caller.key.sees_all else []
    seen, paused = find_fleet(doors, caller), open_breakers.read_all(doors.client, doors.partitions)
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
        breakers=[each for each in paused if caller.may_see(each.tenant, each.repo)],
        may_act=caller.key.may(Right.OPERATOR),
        update_ms=UPDATE_MS,
    )


def _partitions(doors: Context) -> list[PartitionLine]:
    owned = owners.owners(doors.client, doors.partitions)
    waiting = read_backlog(doors.client, doors.partitions)
    return [PartitionLine(number, owned[number], waits) for number, waits in enumerate(waiting)]


def _workers(doors: Context, partitions: list[PartitionLine]) -> list[WorkerLine]:
    owns = Counter(each.owner for each in partitions if each.owner)
    told = {each.token: each.version for each in owners.workers(doors.client)}
    return [WorkerLine(token, told.get(token), owns[token]) for token in sorted(told.keys() | owns.keys())]


class Backlog(NamedTuple):
    """The outcomes that wait in a partition: their number, and the age of the oldest."""

    waiting: int
    oldest_ms: int | None


def read_backlog(client: Redis, partitions: int) -> list[Backlog | None]:
    """Return the backlog of each partition; None if this Redis user may not read it."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    for number in range(partitions):
        pipeline.xlen(Partition(number).outcomes)
        pipeline.xrange(Partition(number).outcomes, count=1)
    (seconds, microseconds), *found = pipeline.execute(raise_on_error=False)
    now = seconds * 1000 + microseconds // 1000
    return [_backlog(length, first, now) for length, first in zip(found[::2], found[1::2], strict=True)]


def _backlog(length: Any, first: Any, now: int) -> Backlog | None:
    for error in (length, first):
        if isinstance(error, NoPermissionError):
            return None
        if isinstance(error, Exception):
            raise error
    return Backlog(length, max(0, now - int(first[0][0].partition(b"-")[0])) if first else None)
