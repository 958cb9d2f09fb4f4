"""Plans by a figure of theirs, the highest first: of those that are asked for the newest MOST_RANKED are compared.

Of each only its figures are read. Which of them fit is asked of the lists that plans are in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from redis import Redis

from schemas import codec
from schemas.stored import PlanHead, read_part
from schemas.stored.spending import Spending
from worker.store.keys import Partition, partition_of
from worker.store.plan_lists import PlanFilter, walk

MOST_RANKED = 5000
PAGE = 1000

Live = Mapping[str, Any]  # what outcomes change of a plan


def _took(live: Live) -> int:
    times = live["times"]
    return int(times["ended"] - times["created"]) if "ended" in times else 0


FIGURES: Mapping[str, Callable[[Live], int]] = MappingProxyType(
    {
        "steps": lambda live: int(live["counts"].get("DONE", 0)),
        "tokens": lambda live: int(live["spent"]["tokens"]),
        "cost": lambda live: read_part(live, Spending).cost or 0,
        "took": _took,
    }
)


def rank(client: Redis, partitions: int, wanted: PlanFilter, figure: str) -> dict[str, int]:
    """Return the figures of the newest plans that are wanted; a few may have changed since and not fit."""
    of, found = FIGURES[figure], dict[str, int]()
    places = (place.plan_id for place, may_fit in walk(client, partitions, wanted) if may_fit)
    newest = islice(places, MOST_RANKED)
    while some := list(islice(newest, PAGE)):
        fitting = [*_in_all_lists(client, partitions, some, wanted)]
        pipeline = client.pipeline(transaction=False)
        for plan_id in fitting:
            fields = ("live", "head", "text") if wanted.kind or wanted.words else ("live",)
            pipeline.hmget(Partition(partition_of(plan_id, partitions)).plan(plan_id).plan, fields)
        for plan_id, (live, *about) in zip(fitting, pipeline.execute() if fitting else (), strict=True):
            if live and (not about or _is_about(wanted, *about)):
                found[plan_id] = of(codec.loads(live))
    return found


def _is_about(wanted: PlanFilter, head: bytes | None, text: bytes | None) -> bool:
    about = PlanHead.decode(head or b"{}")
    return wanted.kind in (None, about.kind) and wanted.is_told((text or b"").decode(), lambda: about)


def _in_all_lists(client: Redis, partitions: int, plan_ids: Iterable[str], wanted: PlanFilter) -> Iterator[str]:
    """Yield those of the plans that are in all lists which have every plan that is wanted."""
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
