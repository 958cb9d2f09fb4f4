"""The controller's side of the streams: receive specs, publish outcomes, acknowledge."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar

from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from worker.sandbox.process import Abandoned
from worker.store.clients import connect as connect_to

log = logging.getLogger("planner.controller")
T = TypeVar("T")

GROUP = "controllers"
NEW = b">"
BLOCK_MS = 1000  # how late a signal or a new stream may be noticed
ABSENT_PAUSE_S = 0.2
SOCKET_TIMEOUT_S = 10  # well above BLOCK_MS, or every quiet second would look like a lost connection
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


def call_until_answered(call: Callable[[], T], stop: Event) -> T:
    """Return what `call` returns once Redis lets it; raises Abandoned on `stop`."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            return call()
        except (AuthenticationError, NoPermissionError):
            raise  # waiting mends neither a password nor a right
        except RedisError as error:
            log.warning("redis_unavailable", extra={"error": str(error)})
        if stop.wait(pause):
            raise Abandoned("shutdown")
        pause = min(pause * 2, LONGEST_PAUSE_S)


@dataclass(frozen=True, slots=True)
class StepEntry:
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
    """One consumer of the group `controllers`; the planner makes stream and group, until then there is no mail."""

    def __init__(self, redis: Redis, streams: Iterable[str], consumer: str, stop: Event) -> None:
        self._redis, self._consumer, self._stop = redis, consumer, stop
        self._streams = deque(streams)
        self._extra: deque[StepEntry] = deque()
        self._look_back: dict[str, bytes] = {}  # streams whose last answer got lost, and how far we have looked
        self._unfinished: set[tuple[str, bytes]] = set()
        self._answered: set[tuple[str, bytes]] = set()  # done, but the acknowledgement may not have arrived

    def receive(self) -> StepEntry | None:
        """Take one entry, None after a second without; raises RedisError."""
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
        call_until_answered(lambda: self._redis.xadd(reply_to, fields), self._stop)

    def acknowledge(self, entry: StepEntry) -> None:
        """Be done with `entry`; a refusal is no matter, since the planner acknowledges ended attempts itself."""
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

    def _next(self) -> StepEntry | None:
        """Ask each stream for an entry, first for one that is pending if we look back; else wait for new ones."""
        present = []
        self._streams.rotate(-1)  # so that no stream starves the others
        for stream in tuple(self._streams):
            if stream in self._look_back:
                if pending := self._read([stream], self._look_back[stream]):
                    self._look_back[stream] = pending[0].id
                    return pending[0]
                del self._look_back[stream]
            found = self._read([stream], NEW)
            if found:
                return found[0]
            if found is not None:
                present.append(stream)
        if not present:
            self._stop.wait(ABSENT_PAUSE_S)
            return None
        # A commit of the planner can fill several streams at once: the first entry is taken, the others are kept.
        self._extra.extend(self._read(present, NEW, block=BLOCK_MS) or ())
        return self._extra.popleft() if self._extra else None

    def _read(self, streams: list[str], start: bytes, block: int | None = None) -> list[StepEntry] | None:
        """Read at most one entry of each stream; None where the stream or its group does not exist."""
        wanted = dict.fromkeys(streams, start)
        try:
            answer: Any = self._redis.xreadgroup(GROUP, self._consumer, wanted, count=1, block=block)  # type: ignore[arg-type]
        except ResponseError as error:
            if str(error).startswith(("NOGROUP", "UNBLOCKED")):
                return None
            raise
        return [
            StepEntry(name.decode(), entry_id, fields or {}) for name, entries in answer for entry_id, fields in entries
        ]
