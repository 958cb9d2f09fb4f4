"""The dead-letter streams, with entries that could not be read or decided: listed, replayed, or dropped."""

from __future__ import annotations

import base64
import heapq
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from schemas import codec
from schemas.envelope import DATA
from schemas.times import rfc3339
from worker.store import functions, keys, queries
from worker.store.functions import FunctionsMissing
from worker.store.keys import PLAN_ID, Partition
from worker.store.queries import Owner

DEAD_DATA_BYTES = 64 * 1024  # kept of the message of an entry
BESIDE = "entry."  # prefix of an entry's other fields in the dead stream
READABLE = "backslashreplace"  # how bytes that are no UTF-8 are shown
REPLAYS = b"replays"  # field of a replayed entry: the number of its replays


class DeadStream(NamedTuple):
    """A dead stream: its short name, its key, and the key of its counters.

    `inbound` are the streams whose entries it receives.
    """

    name: str
    key: str
    stats: str
    inbound: frozenset[str]


class Filter(NamedTuple):
    """A selection of dead entries; an empty field matches all.

    `stream` matches the name or key of a dead stream, the stream that an entry came from, or the last part of its key.
    """

    cause: str = ""
    stream: str = ""
    since_ms: int = 0

    def fits(self, dead: Dead) -> bool:
        """Return whether `dead` is selected; its time is not checked."""
        if self.cause and dead.code != self.cause:
            return False
        names = (dead.place.name, dead.place.key, dead.origin, dead.origin.rpartition(":")[2])
        return not self.stream or self.stream in names


@dataclass(frozen=True)
class Dead:
    """A dead entry; `record` is its stored DeadEntry, or {} if it has none that is readable."""

    place: DeadStream
    entry: str
    record: dict[str, Any]
    data: bytes
    beside: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name for users, such as `0/1699-0`."""
        return f"{self.place.name}/{self.entry}"

    @cached_property
    def problem(self) -> dict[str, Any]:
        """The RFC 9457 problem for which the entry was dead-lettered."""
        found = self.record.get("problem")
        return found if isinstance(found, dict) else {}

    @property
    def code(self) -> str:
        """The code of the problem, such as `poison`; `unknown` without one."""
        return str(self.problem.get("code", "unknown"))

    @property
    def origin(self) -> str:
        """The key of the stream that the entry came from."""
        return str(self.record.get("stream", ""))

    @property
    def source(self) -> str:
        """The id of the entry in the stream that it came from."""
        return str(self.record.get("entry", ""))

    @property
    def size(self) -> int:
        """The size of the entry's largest field in bytes, before truncation."""
        size = self.record.get("size")
        return size if isinstance(size, int) else len(self.data)

    @property
    def whole(self) -> bool:
        """Whether the entry is stored without truncation."""
        return self.record.get("whole") is True

    @property
    def replays(self) -> int:
        """Number of earlier replays."""
        count = self.beside.get(REPLAYS, b"0")
        return int(count) if count.isdigit() and len(count) < 10 else 0

    @property
    def millis(self) -> int:
        """The time when the entry was dead-lettered, in ms of the server's clock."""
        return int(self.entry.partition("-")[0])

    def obstacle(self, *, edited: bool = False) -> str | None:
        """Return why the entry cannot be replayed; None if it can. With `edited`, its message may be truncated."""
        if self.origin not in self.place.inbound:
            return f"it came from {self.origin!r}, which is no stream that the planner reads"
        if not self.whole and not edited:
            return f"only a part of its {self.size} bytes was kept"
        return None

    def again(self, data: bytes | None = None) -> dict[bytes, bytes]:
        """Return the fields of the replayed entry; `data` replaces the message.

        A goal without an id gets its former entry id, so that two replays make one plan.
        """
        fields = dict(self.beside)
        if data is not None or self.code != "no_data":
            fields[DATA] = self.data if data is None else data
        fields[REPLAYS] = b"%d" % (self.replays + 1)
        if self.origin != keys.GOALS:
            return fields
        if data is None:
            fields.setdefault(b"id", self.source.encode())
        elif _goal_id(data):
            fields.pop(b"id", None)
        else:  # another body is another goal
            fields[b"id"] = f"{self.source}-{blake2b(data, digest_size=4).hexdigest()}".encode()
        return fields

    def document(self, *, body: bool = True) -> dict[str, Any]:
        """Return the entry for JSON; its problem, fields and data are included only with `body`.

        Data that are not UTF-8 are in `data_base64`; then `data` is null.
        """
        known = {
            "entry": self.name,
            "code": self.code,
            "detail": self.problem.get("detail", ""),
            "stream": self.origin,
            "source_entry": self.source,
            "at": rfc3339(self.millis),
            "size": self.size,
            "whole": self.whole,
            "replays": self.replays,
        }
        if not body:
            return known
        said = {name.decode(errors=READABLE): value.decode(errors=READABLE) for name, value in self.beside.items()}
        found = {**known, "problem": self.problem, "fields": said}
        try:
            return {**found, "data": self.data.decode()}
        except UnicodeDecodeError:
            return {**found, "data": None, "data_base64": base64.b64encode(self.data).decode()}


def _goal_id(data: bytes) -> Any:
    try:
        body = codec.loads(data)
    except codec.DecodeError:
        return None
    return body.get("goal_id") if isinstance(body, dict) else None


def decode(place: DeadStream, entry: bytes, fields: dict[bytes, bytes] | None) -> Dead:
    """Return an entry of a dead stream; an unreadable record, by any writer, is returned as an empty one."""
    fields = fields or {}
    try:
        record = codec.loads(fields.get(b"problem", b""))
    except codec.DecodeError:
        record = {}
    mark = BESIDE.encode()
    beside = {name.removeprefix(mark): value for name, value in fields.items() if name.startswith(mark)}
    return Dead(place, entry.decode(), record if isinstance(record, dict) else {}, fields.get(DATA, b""), beside)


PAGE = 50  # entries of the first page, which may have any size
PAGE_BYTES = 4 * 1024 * 1024
MAX_PAGE = 1000
GOALS, COMMANDS = "goals", "commands"


def places(partitions: int) -> list[DeadStream]:
    """Return all dead streams."""
    found = [DeadStream(GOALS, keys.GOALS_DEAD, keys.GOALS_STATS, frozenset({keys.GOALS, keys.WEBHOOK_JOBS}))]
    found.append(DeadStream(COMMANDS, keys.COMMANDS_DEAD, keys.COMMANDS_STATS, frozenset({keys.COMMANDS})))
    for number in range(partitions):
        part = Partition(number)
        found.append(DeadStream(str(number), part.dead, part.stats, frozenset({part.outcomes, part.commands})))
    return found


def newest(client: Redis, partitions: int, wanted: Filter, after: str = "") -> Iterator[Dead]:
    """Yield the selected entries, the newest first, from the one that follows the entry named `after`."""
    behind = _rank(after) if after else None
    last = f"{behind[0]}" if behind else "+"
    each = [_pages(client, place, wanted, newest_first=True, last=last) for place in places(partitions)]
    found = heapq.merge(*each, key=lambda dead: _rank(dead.name), reverse=True)
    return (dead for dead in found if behind is None or _rank(dead.name) < behind)


def _rank(name: str) -> tuple[int, str, int]:
    """Return the sort key of the entry with this name, which may be deleted; newer entries have greater keys."""
    place, _, entry = name.partition("/")
    millis, _, number = entry.partition("-")
    return int(millis), place, int(number)


def until_now(client: Redis, partitions: int, wanted: Filter) -> Iterator[list[Dead]]:
    """Yield pages of the selected entries that are there now, the oldest first. Later entries are left out."""
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
    """Return the entry `goals/<id>` or `<partition>/<id>`; None if there is none."""
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
    """Return the owner of a dead entry: from the goal itself, or else from its plan; None if it is unknown."""
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
    """Send entries to their original streams again, and delete them here, all in one transaction.

    If the reply is lost, a caller may send them twice. That does no harm: the lease identifies an outcome, the id
    identifies a goal or a command.
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
    """Delete entries; a server with full memory accepts that, too.

    If the server lacks the function, the entries are counted as displaced by newer ones.
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
    """Delete the oldest entries of dead streams larger than `max_bytes`. Returns their number.

    Each dead-lettering keeps a stream within its limit (aside.lua). This function is for streams that grew without a
    worker of this version, or before the limit was lowered. It also helps a server that is too full to load the
    functions.
    """
    gone = 0
    for place in places(partitions):
        key = place.key
        with suppress(NoPermissionError):  # to ask for the size
            while (length := client.xlen(key)) > 1 and (client.memory_usage(key, samples=0) or 0) > max_bytes:
                gone += client.xtrim(key, maxlen=length - max(1, length // 8), approximate=False)
    return gone


def count_forgotten(client: Redis, partitions: int) -> int:
    """Return the number of entries that newer ones have displaced (PLANNER_MAX_DEAD, PLANNER_MAX_DEAD_SHARE)."""
    total = 0
    for place in places(partitions):
        if client.exists(place.key):
            info: Any = client.xinfo_stream(place.key)
            taken: Any = client.hmget(place.stats, "dead_replayed", "dead_dropped")
            gone = info["entries-added"] - info["length"] - sum(int(count or 0) for count in taken)
            total += max(0, int(gone))
    return total
