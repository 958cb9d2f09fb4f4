"""Reads the event streams in Redis: their entries, their first and last ids, and the epoch of their data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as TookTooLong

from schemas import codec
from schemas.event import EVENT_PREFIX, EVENT_SUFFIX
from worker.gateway.event_position import LARGEST, NO_EPOCH, START, Place, Position, entry_of, place_of
from worker.store import deployment
from worker.store.keys import NO_TENANT, Partition

STREAM_HEADERS = {"X-Accel-Buffering": "no"}  # a proxy that buffers answers would break a stream
AROUND_BYTES = 256  # memory of an event in addition to its text


@dataclass(eq=False)
class Event:
    """An event. Its `position` is that of a reader who has read all partitions up to this event."""

    partition: int
    place: Place  # in its partition
    type: str  # as on the wire
    raw: bytes
    position: Position

    @cached_property
    def data(self) -> dict[str, Any]:
        """The decoded JSON of the event."""
        found: dict[str, Any] = codec.loads(self.raw)
        return found

    @cached_property
    def size(self) -> int:
        """The approximate size in memory, in bytes."""
        return AROUND_BYTES + len(self.raw)

    @cached_property
    def what(self) -> str:
        """The type without the prefix and suffix that all types have, such as `plan.ready`."""
        return self.type.removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX)

    @cached_property
    def goal(self) -> tuple[str, str]:
        """The event's tenant and goal id; NO_TENANT and an empty text if they are missing."""
        return self.data.get("tenant") or NO_TENANT, self.data.get("goal_id") or ""

    @cached_property
    def frame(self) -> bytes:
        """The event in the format of server-sent events, for readers that have read all events before it."""
        return framed(self, self.position)

    @property
    def verdict(self) -> str | None:
        """The verdict on the outcome that the event names in `entry`; None if the event is not about an outcome."""
        return self.data.get("verdict", "applied") if "entry" in self.data else None


@dataclass(frozen=True)
class Gap:
    """A place where events are missing: they came before `position`, and were lost because of `reason`."""

    reason: str  # cut, partitions, rolled_back, overrun
    position: Position
    size = AROUND_BYTES

    @property
    def frame(self) -> bytes:
        """The gap in the format of server-sent events."""
        said = codec.dumps({"reason": self.reason})
        return b"id: %b\nevent: gap\ndata: %b\n\n" % (self.position.encode().encode(), said)


class Ends(NamedTuple):
    """The first and last entry of a stream, and whether older entries were removed."""

    first: Place
    last: Place
    is_cut: bool

    @classmethod
    def at(cls, ms: int) -> Ends:
        """Return the ends of an empty stream whose next entry comes at this Unix time in ms or later."""
        return cls((ms, 0), (ms, 0), is_cut=False)

    @property
    def start(self) -> Place:
        """The place just before the first entry."""
        ms, number = self.first
        return (ms, number - 1) if number else (max(0, ms - 1), LARGEST)

    def lacks(self, place: Place) -> bool:
        """Return whether the stream may have lost entries that came after `place`."""
        return self.is_cut and self.start > place


NOTHING = Ends(START, START, is_cut=False)


class Page(NamedTuple):
    """Events of one partition after a place; `is_full` if there may be more."""

    events: list[tuple[Place, str, bytes]]  # place, type, data
    ends: Ends
    is_full: bool


def framed(event: Event, position: Position) -> bytes:
    """Return an event in the format of server-sent events; its id is the encoded `position`."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (position.encode().encode(), event.type.encode(), event.raw)


def resume(position: Position, epoch: bytes, ends: Sequence[Ends]) -> tuple[Position, str | None]:
    """Return the position to continue from, and the reason if events before it are missing, else None."""
    if len(position.places) != len(ends):
        return Position(epoch, tuple(each.last for each in ends)), "partitions"
    there = tuple(min(place, each.last) for place, each in zip(position.places, ends, strict=True))
    are_others = NO_EPOCH not in (epoch, position.epoch) and epoch != position.epoch
    kept = tuple(each.start if each.lacks(place) else place for place, each in zip(there, ends, strict=True))
    reason = "rolled_back" if are_others or there != position.places else "cut" if kept != there else None
    return Position(epoch, kept), reason


def epoch_of(client: Redis, partitions: int) -> bytes:
    """Return the epoch of the data. Another epoch means that commits were lost, or that the data set was replaced."""
    pipeline = client.pipeline(transaction=False)
    for number in range(partitions):
        pipeline.hmget(Partition(number).commits, "born", "epoch")
    named = [(born, epoch or b"0") for born, epoch in pipeline.execute()]
    if any(born is None for born, _ in named):
        return NO_EPOCH
    return blake2b(b" ".join(part for each in named for part in each), digest_size=len(NO_EPOCH)).digest()


def partitions_of(client: Redis, otherwise: int) -> int:
    """Return the number of partitions; `otherwise` if no worker has stored it yet."""
    return deployment.partitions_of(client) or otherwise


def ends_of(client: Redis, partitions: int, *, away: Ends | None = None) -> list[Ends]:
    """Return the ends of each partition's event stream, `away` for a partition whose server is away.

    Raises NoConnection or TookTooLong for such a server if `away` is None.
    """
    pipeline = client.pipeline(transaction=False)
    for number in range(partitions):
        pipeline.xinfo_stream(Partition(number).events)
    found = pipeline.execute(raise_on_error=False)
    return [away if away and isinstance(each, NoConnection | TookTooLong) else _ends(each) for each in found]


def decoded(entries: Any) -> Iterator[tuple[Place, str, bytes]]:
    """Yield the place, type and data of each entry."""
    for entry, fields in entries:
        kind, raw = fields.get(b"type"), fields.get(b"data")
        if kind is not None and raw is not None:  # else not written by a planner
            yield place_of(entry), kind.decode(), raw


def read_page(client: Redis, partition: int, after: Place, until: Place | None, count: int) -> Page:
    """Return at most `count` events of a partition after `after` up to `until`, and its stream's ends then."""
    stream = Partition(partition).events
    pipeline = client.pipeline(transaction=True)
    pipeline.xrange(stream, f"({entry_of(after)}", entry_of(until) if until else "+", count=count)
    pipeline.xinfo_stream(stream)
    found, ends = pipeline.execute(raise_on_error=False)
    if isinstance(found, Exception):
        raise found
    return Page(list(decoded(found)), _ends(ends), len(found) == count)


def _ends(found: Any) -> Ends:
    if isinstance(found, ResponseError):  # there is no such stream yet
        return NOTHING
    if isinstance(found, Exception):
        raise found
    first, last = found["first-entry"], found["last-generated-id"]
    at_first = place_of(first[0]) if first else place_of(last)
    return Ends(at_first, place_of(last), found["entries-added"] > found["length"])
