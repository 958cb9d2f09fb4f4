"""The streams that a worker watches for new entries, and the work that each of them requires."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tasks.routes import OUTCOMES, ROUTES, Route
from worker.process.wakeup_ledger import Key
from worker.store.keys import Partition, tag_of

EVERYWHERE = Partition(0)  # of routes without partitions
WAKEUP_STUCK_S = 10.0  # a task of a partition ends after DRAIN_S and a batch; one that runs longer is not waited for


@dataclass(eq=False, slots=True)
class Watch:
    """A stream to watch: unread entries require `work`; expired clocks and entries of dead workers require `upkeep`.

    A wake-up that has run for `stuck_s` seconds no longer delays the next one. With `is_owned`, only the partition's
    owner does the work; with `is_read`, its reader reads the stream.
    """

    stream: str
    work: Key
    upkeep: Key | None
    partition: Partition
    timers: str = ""
    stuck_s: float = math.inf
    is_owned: bool = False
    is_read: bool = False
    read_to: bytes | None = None  # new entries are looked for after it; None while earlier ones may be unread


def watches(consumed: frozenset[str], partitions: Sequence[Partition]) -> list[Watch]:
    """Return one watch for each stream of the `consumed` routes; upkeep of a route goes with its last watch."""
    found = []
    for route in ROUTES:
        places = partitions if route.per_partition else (EVERYWHERE,)
        for partition, stream in product(places, route.streams if route.task in consumed else ()):
            found.append(_watch(route, stream, partition))
    return found


def _watch(route: Route, stream: str, partition: Partition) -> Watch:
    args = (partition.number,) if route.per_partition else ()
    is_last = stream == route.streams[-1]
    upkeep = Key((route.sweeper or route).task, args) if is_last else None
    one = Watch(partition.stream(stream), Key(route.task, args), upkeep, partition)
    if route.per_partition:
        one.timers = partition.stream(route.timers) if route.timers else partition.timers
        one.stuck_s = WAKEUP_STUCK_S
    one.is_owned = route is OUTCOMES
    one.is_read = one.is_owned and is_last
    return one


def by_slot(found: Sequence[Watch]) -> dict[str, list[Watch]]:
    """Return the watches whose streams are in one slot of a cluster, by the tag of the slot."""
    slots: dict[str, list[Watch]] = {}
    for watch in found:
        slots.setdefault(tag_of(watch.stream), []).append(watch)
    return slots
