"""The controller's side of the streams: receive specs, publish outcomes, acknowledge."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from worker.controller.patience import patiently
from worker.store.clients import connect as connect_to

GROUP = "controllers"
NEW = b">"
BLOCK_MS = 1000  # how late a signal or a new stream may be noticed
ABSENT_PAUSE_S = 0.2
SOCKET_TIMEOUT_S = 10  # well above BLOCK_MS, or every quiet second would look like a lost connection


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream entry that is ours until we acknowledge it; without fields if the planner deleted it meanwhile."""

    stream: str
    id: bytes
    fields: Mapping[bytes, bytes]

    @property
    def key(self) -> tuple[str, bytes]:
        """Tell this entry from those of other streams."""
        return self.stream, self.id


def connect(url: str) -> Redis:
    """Make a client that never repeats a command by itself: a read whose answer got lost would hide an entry."""
    return connect_to(url, patience_s=SOCKET_TIMEOUT_S)


def step_streams(queues: Iterable[str], partitions: int) -> list[str]:
    """Name the streams that `queues` have in `partitions` partitions."""
    return [f"planner:{{{p}}}:steps:{queue}" for queue in queues for p in range(partitions)]


class Mailbox:
    """One consumer of the group `controllers`. The planner makes stream and group; until then there is no mail."""

    def __init__(self, redis: Redis, streams: Iterable[str], consumer: str, stop: Event) -> None:
        self._redis, self._consumer, self._stop = redis, consumer, stop
        self._streams = deque(streams)
        self._extra: deque[Entry] = deque()
        self._look_back: dict[str, bytes] = {}  # streams whose last answer got lost, and how far we have looked
        self._unfinished: set[tuple[str, bytes]] = set()
        self._answered: set[tuple[str, bytes]] = set()  # done, but the acknowledgement may not have arrived

    def receive(self) -> Entry | None:
        """Take one entry, or None if nothing comes for about a second; raises RedisError when the server is away."""
        try:
            entry = self._extra.popleft() if self._extra else self._next()
        except RedisError:
            # The lost answer may have held an entry, which is pending for us now.
            self._look_back = dict.fromkeys(self._streams, b"0")
            raise
        if entry and entry.key in self._answered:
            self.acknowledge(entry)
            return None
        if entry:
            self._unfinished.add(entry.key)
        return entry

    def publish(self, reply_to: str, fields: dict[Any, Any]) -> None:
        """Add an outcome; after a lost connection the same one again, which the planner applies once."""
        patiently(lambda: self._redis.xadd(reply_to, fields), self._stop)

    def acknowledge(self, entry: Entry) -> None:
        """Be done with `entry`. A refusal is no matter: the planner acknowledges ended attempts itself."""
        self._unfinished.discard(entry.key)
        self._answered.add(entry.key)
        with suppress(RedisError):
            self._redis.xack(entry.stream, GROUP, entry.id)
            self._answered.discard(entry.key)

    def close(self) -> None:
        """Remove our consumer from the groups, unless it still has an attempt to answer for."""
        if not self._unfinished and not self._extra:
            for stream in self._streams:
                with suppress(RedisError):
                    self._redis.xgroup_delconsumer(stream, GROUP, self._consumer)

    def _next(self) -> Entry | None:
        present = []
        self._streams.rotate(-1)  # so that no stream starves the others
        for stream in tuple(self._streams):
            found = self._look(stream)
            if found:
                return found[0]
            if found is not None:
                present.append(stream)
        return self._wait_for(present)

    def _look(self, stream: str) -> list[Entry] | None:
        """Read what is pending for us, if we look back, and then what is new."""
        if stream in self._look_back:
            if found := self._read([stream], self._look_back[stream]):
                self._look_back[stream] = found[0].id
                return found
            del self._look_back[stream]
        return self._read([stream], NEW)

    def _wait_for(self, streams: list[str]) -> Entry | None:
        if not streams:
            self._stop.wait(ABSENT_PAUSE_S)
            return None
        # A commit of the planner can fill several streams at once: the first entry is taken, the others are kept.
        self._extra.extend(self._read(streams, NEW, block=BLOCK_MS) or ())
        return self._extra.popleft() if self._extra else None

    def _read(self, streams: list[str], start: bytes, block: int | None = None) -> list[Entry] | None:
        """Read at most one entry of each stream; None where the stream or its group does not exist."""
        wanted = dict.fromkeys(streams, start)
        try:
            answer: Any = self._redis.xreadgroup(GROUP, self._consumer, wanted, count=1, block=block)  # type: ignore[arg-type]
        except ResponseError as error:
            if str(error).startswith(("NOGROUP", "UNBLOCKED")):
                return None
            raise
        return [
            Entry(name.decode(), entry_id, fields or {}) for name, entries in answer for entry_id, fields in entries
        ]
