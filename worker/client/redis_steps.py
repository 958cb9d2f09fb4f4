"""Steps from the streams of Redis: receives, renews, reports and acknowledges them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from threading import Event
from typing import Any

from redis.exceptions import RedisError, ResponseError

from schemas.attachment import Kind
from worker.client.redis_connection import asked
from worker.client.steps import Beat, Held, StepEntry
from worker.client.trouble import Trouble
from worker.store import deployment, sent_attachments
from worker.store.clients import check_version, connect

log = logging.getLogger("planner.controller")

HEARTBEAT = "planner_heartbeat"
GROUP = "controllers"
NEW = b">"
BLOCK_MS = 1000  # maximum delay until a signal or a new stream is noticed
ABSENT_PAUSE_S = 0.2
SOCKET_TIMEOUT_S = 10  # well above BLOCK_MS, or every quiet second would look like a lost connection


class RedisSteps:
    """A consumer of the group `controllers` on the streams of step specs.

    The planner creates the streams and the group; until then, there are no steps. Attempts are claimed in the name of
    `claimant`. The client never repeats a command by itself: if a reply was lost, the repeated read would skip an
    entry.
    """

    def __init__(
        self, url: str, queues: Iterable[str], partitions: int, consumer: str, claimant: str, stop: Event
    ) -> None:
        self._url, self._partitions, self._consumer, self._claimant = url, partitions, consumer, claimant
        self._redis, self._stop = connect(url, patience_s=SOCKET_TIMEOUT_S), stop
        streams = (f"planner:{{{p}}}:steps:{queue}" for queue in queues for p in range(partitions))
        self._streams = deque(streams)
        self._extra: deque[StepEntry] = deque()
        self._look_back: dict[str, bytes] = {}  # streams with a lost answer, and the position of our search
        self._unfinished: set[tuple[str, bytes]] = set()
        self._answered: set[tuple[str, bytes]] = set()  # done, but the acknowledgement may not have arrived

    def check(self) -> None:
        """Raise Trouble if the server's version or its number of partitions does not fit."""
        with asked(self._url):
            check_version(self._redis)
            deployment.check(self._redis, self._partitions)

    def receive(self) -> StepEntry | None:
        """Return one entry; None after a second without one."""
        with asked(self._url):
            return self._receive()

    def _receive(self) -> StepEntry | None:
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

    def beat(self, held: Held, info: bytes, tool_calls: int | None = None) -> Beat | None:
        """Send one heartbeat, which claims an unclaimed attempt."""
        lease = (held.lease_key, str(held.attempt), held.lease)
        counted = () if tool_calls is None else ("", tool_calls)  # no token of a claim, which gateways have
        try:
            with asked(self._url):
                answer: Any = self._redis.fcall(HEARTBEAT, 1, *lease, self._claimant, "", info, *counted)
        except Trouble as trouble:
            if not isinstance(trouble.__cause__, ResponseError):
                raise
            log.info("heartbeat_unavailable", extra={**held.ids, "error": str(trouble.__cause__)})
            return None
        return Beat(answer[0].decode(), int(answer[2] or 0))

    def attach(self, held: Held, content: bytes, kind: Kind = "diff") -> None:
        """Add an attachment of an attempt."""
        data = sent_attachments.message(held.plan_id, held.step_id, held.attempt, content, kind)
        with asked(self._url):
            sent_attachments.send(self._redis, self._partitions, held.plan_id, data)

    def publish(self, held: Held, data: bytes) -> None:
        """Add an outcome."""
        fields: dict[Any, Any] = {"data": data, **held.ids, "lease": held.lease}
        with asked(self._url):
            self._redis.xadd(held.reply_to, fields)

    def acknowledge(self, entry: StepEntry) -> None:
        """Acknowledge `entry`; a refusal is ignored, because the planner acknowledges ended attempts itself."""
        self._unfinished.discard(entry.key)
        self._answered.add(entry.key)
        with suppress(RedisError):
            self._redis.xack(entry.stream, GROUP, entry.id)
            self._answered.discard(entry.key)

    def close(self) -> None:
        """Remove our consumer from the groups, unless it still has an unreported attempt."""
        for stream in () if self._unfinished or self._extra else self._streams:
            try:
                self._redis.xgroup_delconsumer(stream, GROUP, self._consumer)
            except ResponseError:  # there is no such stream or group
                continue
            except RedisError:
                break
        self._redis.close()

    def _next(self) -> StepEntry | None:
        """Return the next step; None if none arrives within BLOCK_MS.

        The streams take turns. If the reply to a read was lost, the pending entries of its stream come first.
        """
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
        """Return at most one entry of each stream, read from `start`; None if a stream or its group is missing."""
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
