"""Reads the state of many streams, or of the clocks of many partitions, in one call; see lua/looks.lua."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redis import Redis

from worker.store import functions
from worker.store.keys import GROUP, Partition


class Unread(NamedTuple):
    """The last entry of a stream that our group has read, and whether later entries exist.

    `last` is None if the stream has no such group.
    """

    last: bytes | None
    has_more: bool


class Waiting(NamedTuple):
    """The state of a stream: length, last read entry, number of pending entries, the oldest one and its consumer."""

    stream: str
    length: int
    last: bytes
    pending: int
    oldest: bytes
    consumer: bytes


class Due(NamedTuple):
    """The earliest time of all clocks in ms (None if there is none), and the indexes of the expired clocks."""

    first: float | None
    places: tuple[int, ...]


def unread(client: Redis, streams: Sequence[str]) -> list[Unread]:
    """Return for each stream the last entry that our group has read, and whether it has unread entries."""
    if not streams:
        return []
    found = functions.call_or_load(client, "FCALL", functions.UNREAD, len(streams), *streams, GROUP)
    return [Unread(last.removesuffix(b"+") or None, last.endswith(b"+")) for last in found]


def waiting_call(streams: Sequence[str]) -> tuple[str | int, ...]:
    """Return the call that reads the state of streams; `waiting` decodes its reply."""
    return ("FCALL", functions.WAITING, len(streams), *streams, GROUP)


def waiting(streams: Sequence[str], reply: Sequence[Sequence[bytes]]) -> list[Waiting]:
    """Return the state of each stream that has entries, from the reply to `waiting_call`."""
    return [
        Waiting(streams[int(place) - 1], int(length), last, int(pending), *oldest)
        for place, length, last, pending, *oldest in reply
    ]


def due(client: Redis, clocks: Sequence[str]) -> Due:
    """Return which of these sorted sets have an expired clock."""
    if not clocks:
        return Due(None, ())
    return read_due(functions.call_or_load(client, *due_call(clocks)))


def due_call(clocks: Sequence[str]) -> tuple[str | int, ...]:
    """Return the command that `due` sends; `read_due` decodes its reply."""
    return ("FCALL", functions.DUE, len(clocks), *clocks)


def read_due(reply: Sequence[bytes | int]) -> Due:
    """Return the decoded reply to `due_call`."""
    first, *places = reply
    return Due(float(first) if first else None, tuple(int(place) - 1 for place in places))


def look_over(client: Redis, partitions: Sequence[Partition], idle_ms: int) -> list[int]:
    """Record a sweep for each partition where nothing is due. Return the numbers of the other partitions.

    An entry that is pending for `idle_ms` counts as left by a dead worker.
    """
    if not partitions:
        return []
    keys = [key for each in partitions for key in _looked_over(each)]
    found = functions.call_or_load(client, "FCALL", functions.LOOK_OVER, len(keys), *keys, GROUP, idle_ms)
    return [partitions[int(place) - 1].number for place in found]


def _looked_over(part: Partition) -> tuple[str, ...]:
    streams = (part.outcomes, part.commands, part.attachments)
    return (part.timers, part.sweep, *streams, part.breakers_due, part.events)
