"""`/v1/queues`, `/v1/budgets`, `/v1/controllers`: waiting steps, controllers, and the remaining budgets of the day."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Response
from redis import Redis

from schemas.api_key import Right
from schemas.base import Name
from schemas.command import Scope
from schemas.fleet import ControllerView, DayBudgetView, QueueView
from schemas.times import DAY_MS, rfc3339
from tasks.plan.snapshot import StandingCommand
from worker.gateway.access import Access, Context, Doors, having
from worker.gateway.responses import Page, page
from worker.store import fleet, keys, queries
from worker.store.fleet import Stream
from worker.store.keys import Partition

router = APIRouter(tags=["fleet"])

FLEET_RIGHTS = (Right.VIEWER, Right.OPERATOR)
FleetReader = Annotated[Access, Depends(having(*FLEET_RIGHTS))]


@router.get("/v1/queues", response_model=Page[QueueView])
def queues(caller: FleetReader, doors: Doors) -> Response:
    """List the queues of step specs; a key of a tenant or of repositories sees only its own queues."""
    return page(find_queues(doors, caller))


def find_queues(doors: Context, caller: Access) -> list[QueueView]:
    """Return the queues that a caller may see."""
    return _seen_queues(doors, caller, find_streams(doors, caller))


def find_streams(doors: Context, caller: Access) -> list[Stream]:
    """Return the streams of the queues that a caller may see."""
    return fleet.streams(doors.client, _names(doors, caller), doors.partitions)


class SeenFleet(NamedTuple):
    """The queues and controllers that a caller may see; `elsewhere` names controllers that work only for others."""

    queues: list[QueueView]
    controllers: list[ControllerView]
    elsewhere: frozenset[str]


def find_fleet(doors: Context, caller: Access) -> SeenFleet:
    """Return the fleet as a caller may see it, from one reading of Redis."""
    streams = find_streams(doors, caller)
    found = fleet.controllers_of(doors.client, streams)
    busy = {each.name for each in found if each.steps}
    seen = _seen_controllers(doors, caller, found)
    elsewhere = frozenset(each.name for each in seen if each.name in busy and not each.steps)
    return SeenFleet(_seen_queues(doors, caller, streams), seen, elsewhere)


def _seen_queues(doors: Context, caller: Access, streams: list[Stream]) -> list[QueueView]:
    found = fleet.queues_of(doors.client, streams)
    return [each for each in found if caller.key.sees_all or each.queue in caller.key.queues]


def _names(doors: Context, caller: Access) -> list[str]:
    """Return the names of the queues that a caller may see."""
    key = caller.key
    return fleet.read_queue_names(doors.client, doors.partitions) if key.sees_all else list(key.queues)


@router.get("/v1/controllers", response_model=Page[ControllerView])
def controllers(caller: FleetReader, doors: Doors) -> Response:
    """List the controllers. Some keys see neither controllers of other queues nor steps of other callers' plans."""
    return page(find_controllers(doors, caller))


def find_controllers(doors: Context, caller: Access) -> list[ControllerView]:
    """Return the controllers that a caller may see, each with the steps that the caller may see."""
    return _seen_controllers(doors, caller, fleet.controllers_of(doors.client, find_streams(doors, caller)))


def _seen_controllers(doors: Context, caller: Access, found: list[ControllerView]) -> list[ControllerView]:
    if caller.key.sees_all:
        return found
    in_hand = [step.plan_id for each in found for step in each.steps]
    owners = queries.owners(doors.client, doors.partitions, in_hand)
    ours = {plan_id for plan_id, owner in owners.items() if caller.may_see(*owner)}
    mine = (each for each in found if set(each.queues) & set(caller.key.queues))
    return [
        each.model_copy(update={"steps": tuple(step for step in each.steps if step.plan_id in ours)}) for each in mine
    ]


def find_standing(doors: Context, caller: Access) -> list[StandingCommand]:
    """Return the bulk commands in force that the caller may see: for all plans and for scopes, but not for queues."""
    found = fleet.standing_commands(doors.client, time.time_ns() // 1_000_000)
    plans = (each for each in found if not each.scope.startswith(f"{Scope.QUEUE}:"))
    return [each for each in plans if each.scope == Scope.ALL or _may_see(caller, each.scope)]


@router.get("/v1/budgets", response_model=Page[DayBudgetView])
def budgets(
    caller: FleetReader,
    doors: Doors,
    tenant: Annotated[Name | None, Query()] = None,
    repo: Annotated[Name | None, Query()] = None,
) -> Response:
    """List the day budgets of tenants and repositories: all, or the named ones. Unlimited ones are left out."""
    named = [f"tenant:{tenant}"] if tenant else []
    named += [f"repository:{repo}"] if repo else []
    return page(find_budgets(doors, caller, named))


def find_budgets(doors: Context, caller: Access, named: Sequence[str] = ()) -> list[DayBudgetView]:
    """Return the day budgets that a caller may see, of the `named` scopes or else of all scopes with a use."""
    scopes = named or used_scopes(doors.client, doors.partitions)
    limits = {scope: limit for scope in scopes if _may_see(caller, scope) and (limit := _limit(doors, scope))}
    return read(doors.client, doors.partitions, limits)


def _may_see(caller: Access, scope: str) -> bool:
    """Return whether the caller may see a budget; all tenants that name a repository share its budget."""
    of, _, name = scope.partition(":")
    key = caller.key
    if of == "tenant":
        return key.tenant in (None, name) and not key.repositories
    return name in key.repositories if key.repositories else key.tenant is None


def _limit(doors: Context, scope: str) -> int | None:
    settings = doors.settings
    return settings.tenant_day_tokens if scope.startswith("tenant:") else settings.repository_day_tokens


def used_scopes(client: Redis, partitions: int) -> list[str]:
    """Return the scopes whose plans received tokens, today or before."""
    pipeline = client.pipeline(transaction=False)
    for number in range(partitions):
        pipeline.hkeys(Partition(number).grants)
    return sorted({scope.decode() for found in pipeline.execute() for scope in found})


def read(client: Redis, partitions: int, limits: Mapping[str, int]) -> list[DayBudgetView]:
    """Return the day budgets of these scopes, each with the limit of its setting."""
    seconds: Any = client.time()
    day = seconds[0] // (DAY_MS // 1000)
    pipeline = client.pipeline(transaction=False)
    for scope in limits:
        pipeline.hmget(keys.day_grants(day, scope), "granted", "extra")
        for number in range(partitions):
            pipeline.hget(Partition(number).grants, scope)
    replies, size = pipeline.execute(), 1 + partitions
    views = []
    for place, (scope, limit) in enumerate(limits.items()):
        (granted, extra), *grants = replies[place * size : (place + 1) * size]
        of, _, name = scope.partition(":")
        unused = sum(_left(raw, day) for raw in grants)  # below 0 where more was used than was granted
        view = DayBudgetView(
            scope=scope,
            tenant=name if of == "tenant" else None,
            repo=name if of == "repository" else None,
            limit=limit + int(extra or 0),
            spent=max(0, int(granted or 0) - unused),
            resets_at=rfc3339((day + 1) * DAY_MS),
        )
        views.append(view)
    return views


def _left(raw: bytes | None, day: int) -> int:
    """Return the remaining tokens of a partition's grant; 0 for a grant of another day."""
    of, left, *_ = raw.split() if raw else (b"-1", b"0")
    return int(left) if int(of) == day else 0
