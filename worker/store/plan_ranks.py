"""Sorts plans by a figure or a text; only the newest MOST_RANKED wanted plans are compared.

The highest figure comes first; texts are from A to Z, and plans without a text are last. Only the compared field of
each plan is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import NoPermissionError

from schemas import codec
from schemas.stored import PlanHead, read_part
from schemas.stored.spending import Spending
from tasks.plan.lifecycle import PLAN_ENDS
from worker.store.keys import Partition, home_of, partition_of
from worker.store.plan_lists import PlanFilter, walk
from worker.store.step_activity import controllers_of, read_activities

MOST_RANKED = 5000
MOST_AT_WORK = 500  # plans whose controllers are read; each costs five commands
PAGE = 1000
CONTROLLER = "controller"

Live = Mapping[str, Any]  # what outcomes change of a plan
Place = tuple[int, str]  # plans with a lower one come first


def _took(live: Live) -> int:
    times = live["times"]
    return int(times["ended"] - times["created"]) if "ended" in times else 0


def _highest(figure: Callable[[Live], int]) -> Callable[[bytes], Place]:
    return lambda live: (-figure(codec.loads(live)), "")


def _of_text(text: str) -> Place:
    said = text.casefold()
    return not said, said


def _first(raw: bytes) -> Place:
    return _of_text(raw.decode(errors="replace"))


class Order(NamedTuple):
    """A sort order: the compared field of a plan's hash, and the function that turns its content into a sort key."""

    field: str
    place: Callable[[bytes], Place]


ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "state": Order("state", _first),
        "goal": Order("text", _first),
        "steps": Order("live", _highest(lambda live: int(live["counts"].get("DONE", 0)))),
        CONTROLLER: Order("state", _first),
        "tokens": Order("live", _highest(lambda live: int(live["spent"]["tokens"]))),
        "cost": Order("live", _highest(lambda live: read_part(live, Spending).cost or 0)),
        "took": Order("live", _highest(_took)),
    }
)


def rank(client: Redis, partitions: int, wanted: PlanFilter, by: str) -> dict[str, Place]:
    """Return the sort key of each of the newest wanted plans; a plan that changed meanwhile may not match any more."""
    found = _read(client, partitions, wanted, ORDERS[by])
    return _by_controller(client, partitions, found) if by == CONTROLLER else found


def _read(client: Redis, partitions: int, wanted: PlanFilter, order: Order) -> dict[str, Place]:
    found = dict[str, Place]()
    places = (place.plan_id for place, may_fit in walk(client, partitions, wanted) if may_fit)
    newest = islice(places, MOST_RANKED)
    fields = (order.field, "head", "text") if wanted.kind or wanted.words else (order.field,)
    while some := list(islice(newest, PAGE)):
        fitting = [*_in_all_lists(client, partitions, some, wanted)]
        pipeline = client.pipeline(transaction=False)
        for plan_id in fitting:
            pipeline.hmget(home_of(plan_id, partitions).plan(plan_id).plan, fields)
        for plan_id, (raw, *about) in zip(fitting, pipeline.execute() if fitting else (), strict=True):
            if raw is not None and (not about or _is_about(wanted, *about)):
                found[plan_id] = order.place(raw)
    return found


def _by_controller(client: Redis, partitions: int, states: Mapping[str, Place]) -> dict[str, Place]:
    """Return sort keys by the name of a controller that works on the plan.

    Controllers are read only for the newest MOST_AT_WORK plans that have not ended.
    """
    ends = {state.casefold() for state in PLAN_ENDS}
    live = [plan_id for plan_id, (_, state) in states.items() if state not in ends][:MOST_AT_WORK]
    try:
        known = read_activities(client, partitions, live)
    except NoPermissionError:
        known = {}  # a gateway that may not read who works: the newest come first
    names = {plan_id: next(iter(controllers_of(doing.steps)), "") for plan_id, doing in known.items()}
    return {plan_id: _of_text(names.get(plan_id, "")) for plan_id in states}


def _is_about(wanted: PlanFilter, head: bytes | None, text: bytes | None) -> bool:
    about = PlanHead.decode(head or b"{}")
    return wanted.kind in (None, about.kind) and wanted.is_told((text or b"").decode(), lambda: about)


def _in_all_lists(client: Redis, partitions: int, plan_ids: Iterable[str], wanted: PlanFilter) -> Iterator[str]:
    """Yield the plans that are in every list that the filter names."""
    if len(wanted.names) <= 1:
        yield from plan_ids
        return
    apart: dict[int, list[str]] = {}
    for plan_id in plan_ids:
        apart.setdefault(partition_of(plan_id, partitions), []).append(plan_id)
    pipeline = client.pipeline(transaction=False)
    for number, some in apart.items():
        for name in wanted.names:
            pipeline.zmscore(Partition(number).list_of(name), some)
    replies = iter(pipeline.execute() if apart else ())
    for some in apart.values():
        scores = [next(replies) for _ in wanted.names]
        yield from (plan_id for plan_id, *places in zip(some, *scores, strict=True) if None not in places)
