"""The dead streams: looked at, sent back where entries came from, or dropped.

They hold what could not be read or decided about.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from schemas import codec
from worker.store import functions, keys, queries
from worker.store.dead_entry import Dead, DeadStream, Filter, decode
from worker.store.functions import FunctionsMissing
from worker.store.keys import PLAN_ID, Partition
from worker.store.queries import Owner

PAGE = 50  # entries of the first page, which may be as large as they come
PAGE_BYTES = 4 * 1024 * 1024
MAX_PAGE = 1000
GOALS, COMMANDS = "goals", "commands"


def places(partitions: int) -> list[DeadStream]:
    """List every dead stream."""
    found = [DeadStream(GOALS, keys.GOALS_DEAD, keys.GOALS_STATS, frozenset({keys.GOALS, keys.WEBHOOK_JOBS}))]
    found.append(DeadStream(COMMANDS, keys.COMMANDS_DEAD, keys.COMMANDS_STATS, frozenset({keys.COMMANDS})))
    for number in range(partitions):
        part = Partition(number)
        found.append(DeadStream(str(number), part.dead, part.stats, frozenset({part.outcomes, part.commands})))
    return found


def newest(client: Redis, partitions: int, wanted: Filter, after: str = "") -> Iterator[Dead]:
    """Yield the entries that are meant, the newest first, page by page; they begin behind the one called `after`."""
    behind = _rank(after) if after else None
    last = f"{behind[0]}" if behind else "+"
    each = [_pages(client, place, wanted, newest_first=True, last=last) for place in places(partitions)]
    found = heapq.merge(*each, key=lambda dead: _rank(dead.name), reverse=True)
    return (dead for dead in found if behind is None or _rank(dead.name) < behind)


def _rank(name: str) -> tuple[int, str, int]:
    """Tell where an entry stands among all: what is newer is greater; a name says it, also of one that is gone."""
    place, _, entry = name.partition("/")
    millis, _, number = entry.partition("-")
    return int(millis), place, int(number)


def until_now(client: Redis, partitions: int, wanted: Filter) -> Iterator[list[Dead]]:
    """Yield pages of the wanted entries that stand there now, the oldest first.

    What dies later is left out.
    """
    for place in places(partitions):
        last: Any = client.xrevrange(place.key, count=1)
        batch: list[Dead] = []
        for dead in _pages(client, place, wanted, last=last[0][0].decode()) if last else ():
            batch.append(dead)
            if len(batch) >= PAGE or sum(len(each.data) for each in batch) >= PAGE_BYTES:
                yield batch
                batch = []
        if batch:
            yield batch


def _pages(
    client: Redis, place: DeadStream, wanted: Filter, *, newest_first: bool = False, last: str = "+"
) -> Iterator[Dead]:
    first, count = str(wanted.since_ms), PAGE
    while True:
        read = client.xrevrange if newest_first else client.xrange
        page: Any = read(place.key, min=first, max=last, count=count)
        found = [decode(place, entry, fields) for entry, fields in page]
        yield from filter(wanted.fits, found)
        if len(page) < count:
            return
        if newest_first:
            last = "(" + found[-1].entry
        else:
            first = "(" + found[-1].entry
        size = sum(len(dead.data) for dead in found) // len(found) + 1
        count = max(1, min(MAX_PAGE, PAGE_BYTES // size))


def find(client: Redis, partitions: int, name: str) -> Dead | None:
    """Find the entry `goals/<id>` or `<partition>/<id>`; None if there is none."""
    where, _, entry = name.partition("/")
    for place in places(partitions):
        if place.name == where:
            try:
                found: Any = client.xrange(place.key, min=entry, max=entry, count=1)
            except ResponseError:  # not the id of an entry
                return None
            return decode(place, *found[0]) if found else None
    return None


def owner(client: Redis, partitions: int, dead: Dead) -> Owner | None:
    """Tell whose a dead entry is: of a goal what it says, of the rest whose the plan is; None where nobody knows."""
    try:
        said = codec.loads(dead.data)
    except codec.DecodeError:
        return None
    if not isinstance(said, dict):
        return None
    if dead.origin == keys.GOALS:
        return _owner_of_goal(said)
    plan_id = said.get("plan_id") or dead.beside.get(b"plan_id", b"").decode(errors="replace")
    if not isinstance(plan_id, str) or not PLAN_ID.fullmatch(plan_id):
        return None
    return queries.owners(client, partitions, (plan_id,)).get(plan_id)


def _owner_of_goal(said: dict[str, Any]) -> Owner | None:
    tenant, context = said.get("tenant", keys.NO_TENANT), said.get("context")
    repo = context.get("repo") if isinstance(context, dict) else None
    return Owner(tenant, repo) if isinstance(tenant, str) and isinstance(repo, str | None) else None


def replay(client: Redis, batch: Sequence[Dead], data: bytes | None = None) -> None:
    """Send entries back to where they came from, and delete them here.

    Both or neither, for all or none. A reply that is lost may have a caller send them twice, which is harmless:
    outcomes go by lease, goals and commands by id.
    """
    pipeline = client.pipeline(transaction=True)
    for dead in batch:
        fields: dict[Any, Any] = {**dead.again(data)}
        pipeline.xadd(dead.origin, fields)
    for place, ids in _by_place(batch):
        pipeline.xdel(place.key, *ids)
        pipeline.hincrby(place.stats, "dead_replayed", len(ids))
    pipeline.execute()


def drop(client: Redis, batch: Sequence[Dead]) -> None:
    """Delete entries; a server whose memory is full lets that happen too.

    Where no worker of this version has loaded its functions yet, what was dropped is counted as what gave way.
    """
    for place, ids in _by_place(batch):
        try:
            functions.call(client, "FCALL", functions.DROP_DEAD, 2, place.key, place.stats, "dead_dropped", *ids)
        except FunctionsMissing:
            client.xdel(place.key, *ids)


def _by_place(batch: Sequence[Dead]) -> list[tuple[DeadStream, list[str]]]:
    places = dict.fromkeys(dead.place for dead in batch)
    return [(place, [dead.entry for dead in batch if dead.place == place]) for place in places]


def cut(client: Redis, partitions: int, max_bytes: int) -> int:
    """Delete the oldest entries of dead streams larger than `max_bytes`.

    Returns how many those were. What is dead-lettered keeps a stream within its bounds (aside.lua). This is for one
    that grew while no worker of this version was there, or before the bound was lowered; and for a server that is too
    full to take the functions.
    """
    gone = 0
    for place in places(partitions):
        key = place.key
        with suppress(NoPermissionError):  # to ask for the size
            while (length := client.xlen(key)) > 1 and (client.memory_usage(key, samples=0) or 0) > max_bytes:
                gone += client.xtrim(key, maxlen=length - max(1, length // 8), approximate=False)
    return gone


def count_forgotten(client: Redis, partitions: int) -> int:
    """Count the entries that gave way to newer ones (PLANNER_MAX_DEAD, PLANNER_MAX_DEAD_SHARE)."""
    total = 0
    for place in places(partitions):
        if client.exists(place.key):
            info: Any = client.xinfo_stream(place.key)
            taken: Any = client.hmget(place.stats, "dead_replayed", "dead_dropped")
            gone = info["entries-added"] - info["length"] - sum(int(count or 0) for count in taken)
            total += max(0, int(gone))
    return total
