"""The planner's side of an inbound stream with its dead stream: group reads, take-overs, dead-lettering."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from redis import Redis
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from schemas import codec
from schemas.envelope import DATA, DeadEntry, FieldError, Problem
from schemas.times import rfc3339
from worker.store import functions
from worker.store.dead import BESIDE, DEAD_DATA_BYTES
from worker.store.keys import GROUP, stats_of

DEAD_FIELDS = 32  # fields of an entry that are kept in addition to its data
DEAD_FIELDS_BYTES = 16 * 1024  # of all of them together
DEAD_PROBLEM_BYTES = 16 * 1024  # of its reason, where the names of fields are a sender's words
DEAD_TEXT = 500  # letters of each text in that
MAX_DEAD = 100_000  # entries a dead stream keeps, unless set
DEAD_BYTES = 64 * 1024 * 1024  # bytes that it keeps, unless set
FAILURES_S = 7 * 86_400
BATCH_ENTRIES = 256
BATCH_BYTES = 4 * 1024 * 1024

RedisCommand = tuple[Any, ...]


def worker_name() -> str:
    """Return the consumer name of this process: host, pid and a random part, because pids are reused."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class LeftTooOften(Exception):
    """An entry is poison: workers were killed during too many tries at it."""


class StreamEntry(Struct, frozen=True, gc=False):
    """An entry as it was read; `fields` is empty if it was deleted meanwhile."""

    stream: str
    entry_id: bytes
    fields: dict[bytes, bytes]

    @property
    def data(self) -> bytes | None:
        """The encoded message."""
        return self.fields.get(b"data")

    @property
    def size(self) -> int:
        """The size of the entry's largest field, in bytes."""
        return max(map(len, self.fields.values()), default=0)

    def field(self, name: str) -> str | None:
        """Return a further field of the entry, such as a CloudEvents attribute."""
        value = self.fields.get(name.encode())
        return value.decode(errors="replace") if value else None


@dataclass(eq=False, repr=False)
class Inbox:
    """One stream and the planner's group on it; both are created if they are missing."""

    client: Redis
    stream: str
    dead: str
    consumer: str
    max_dead: int = MAX_DEAD
    dead_bytes: Callable[[], int] = lambda: DEAD_BYTES
    _count: int = field(default=BATCH_ENTRIES // 4, init=False)  # of the next batch, until sizes are known
    _looked_at: bytes = field(default=b"0-0", init=False)  # up to where `take_over` looked; from there it goes on

    def read(self, count: int = BATCH_ENTRIES, block_ms: int | None = None, after: str = ">") -> list[StreamEntry]:
        """Return new entries, at most `count` and about BATCH_BYTES.

        `after="0"` returns the pending entries of this consumer.
        """
        return self.entries_of(self._in_group(*self.read_command(count, block_ms, after)))

    def read_command(self, count: int = BATCH_ENTRIES, block_ms: int | None = None, after: str = ">") -> RedisCommand:
        """Return the command of `read`; `entries_of` decodes its reply."""
        block = () if block_ms is None else ("BLOCK", block_ms)
        wanted = min(count, self._count)
        return ("XREADGROUP", "GROUP", GROUP, self.consumer, "COUNT", wanted, *block, "STREAMS", self.stream, after)

    def entries_of(self, reply: Any) -> list[StreamEntry]:
        """Return the entries in a reply, and set the number of entries in the next batch by their size."""
        entries, total = [], 0
        for entry_id, flat in reply[0][1] if reply else ():
            if flat and len(flat) == 2:  # as nearly always
                entry = StreamEntry(self.stream, entry_id, {flat[0]: flat[1]})
                total += len(flat[1])
            else:
                entry = self.entry_of(entry_id, flat)
                total += entry.size
            entries.append(entry)
        if total:
            self._count = max(1, min(BATCH_ENTRIES, BATCH_BYTES * len(entries) // total))
        return entries

    def entry_of(self, entry_id: bytes, flat: Sequence[bytes] | None) -> StreamEntry:
        """Return an entry of the server's reply; without fields if it was deleted."""
        values = iter(flat or ())
        return StreamEntry(self.stream, entry_id, dict(zip(values, values, strict=False)))

    def _in_group(self, *call: Any) -> Any:
        """Run a command that requires the consumer group; create the group first if it is missing."""
        try:
            return functions.call(self.client, *call)
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self.create_group()
            return functions.call(self.client, *call)

    def create_group(self) -> None:
        """Create the group at the start of the stream, with the stream."""
        try:
            self._make_group()
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def _make_group(self) -> None:
        try:
            self.client.xgroup_create(self.stream, GROUP, id="0", mkstream=True)
        except OutOfMemoryError as full:  # who cannot read a stream cannot empty it
            try:
                functions.call(self.client, "FCALL", functions.MAKE_GROUP, 1, self.stream, GROUP)
            except functions.FunctionsMissing:
                raise full from None

    def take_over(self, idle_ms: int) -> int:
        """Take over entries that another worker left for `idle_ms`. Returns their number; read them with `after="0"`.

        The server examines ten batches of pending entries. The next call continues after them, and starts over after
        the last. With 0, the first entries are taken, because all count as left.
        """
        start = self._looked_at if idle_ms else b"0-0"
        terms = (idle_ms, start, "COUNT", BATCH_ENTRIES, "JUSTID")
        self._looked_at, taken, *_ = self._in_group("XAUTOCLAIM", self.stream, GROUP, self.consumer, *terms)
        return len(taken)

    @contextmanager
    def renewal(self, entries: Sequence[StreamEntry], every_s: float) -> Iterator[None]:
        """Renew this consumer's claim on `entries` until the block ends, so that no other worker takes them over."""
        done = threading.Event()
        ids: Any = [entry.entry_id for entry in entries]

        def renew() -> None:
            while not done.wait(every_s):
                with suppress(RedisError):  # the worker of the entry will notice
                    self.client.xclaim(self.stream, GROUP, self.consumer, 0, ids, justid=True)

        thread = threading.Thread(target=renew, name="renew-entry", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def dead_letter(self, entry: StreamEntry, problem: Problem) -> list[RedisCommand]:
        """Return the commands that move `entry` to the dead stream with its reason.

        Its message is truncated to 64 kB. Its other fields are stored as `entry.<name>`, truncated to 16 kB, as is the
        reason. The stream keeps about `max_dead` entries and `dead_bytes()` bytes.
        """
        raw, beside = entry.data or b"", _beside(entry)
        whole = {**beside, **({DATA: raw[:DEAD_DATA_BYTES]} if DATA in entry.fields else {})} == entry.fields
        dead = DeadEntry(
            problem=short(problem),
            stream=entry.stream,
            entry=entry.entry_id.decode(),
            size=entry.size,
            at=rfc3339(time.time_ns() // 1_000_000),
            whole=whole,
        )
        keys = (entry.stream, self.dead, stats_of(self.dead))
        bounds = (self.max_dead, self.dead_bytes())
        fields: list[str | bytes] = ["problem", codec.encode(dead), "data", raw[:DEAD_DATA_BYTES]]
        for name, value in beside.items():
            fields += (BESIDE.encode() + name, value)
        return [("FCALL", functions.DEAD_LETTER, len(keys), *keys, GROUP, entry.entry_id, *bounds, *fields)]

    def count_failure(self, entry: StreamEntry, failures: str, limit: int) -> list[RedisCommand]:
        """Count a failure of `entry` in the hash `failures`; a full server accepts it, too.

        At `limit` failures, returns the commands that dead-letter it as poison and delete the count; else none.
        """
        count = functions.call(self.client, "FCALL", functions.COUNT, 1, failures, entry.entry_id, 1)
        self.client.expire(failures, FAILURES_S)  # who failed and then did not is forgotten
        if count < limit:
            return []
        problem = Problem.of("poison", f"It failed {count} times; the worker's log has the reasons.", status=500)
        return [*self.dead_letter(entry, problem), ("HDEL", failures, entry.entry_id)]

    @contextmanager
    def counted_try(self, entry: StreamEntry, failures: str, limit: int) -> Iterator[None]:
        """Count a failure of `entry` in the hash `failures` until the block ends, even if that raises.

        If the process is killed in the block, the failure stays counted. Raises LeftTooOften if `limit` failures are
        counted already, and deletes the count.
        """
        count = functions.call(self.client, "FCALL", functions.COUNT, 1, failures, entry.entry_id, 1)
        self.client.expire(failures, FAILURES_S)
        if count > limit:
            self.client.hdel(failures, entry.entry_id)
            raise LeftTooOften(f"{limit} tries failed, or ended with their worker; the worker's log has the reasons.")
        try:
            yield
        finally:
            if functions.call(self.client, "FCALL", functions.COUNT, 1, failures, entry.entry_id, -1) <= 0:
                self.client.hdel(failures, entry.entry_id)

    def forward(self, entry: StreamEntry, target: str) -> None:
        """Move `entry` unchanged to another stream, perhaps of another slot.

        It is dropped here at once: an entry that is still pending may be read, and forwarded, a second time.
        """
        flat = [part for pair in entry.fields.items() for part in pair]
        functions.call(self.client, "FCALL", functions.ADD, 1, target, "", *flat)
        functions.call_each(self.client, self.drop((entry,)))

    def give_away(self, entries: Iterable[StreamEntry], consumer: str) -> list[RedisCommand]:
        """Return the commands that make `entries` pending with the consumer `consumer`, each in its own stream."""
        ids = _by_stream(entries)
        return [("XCLAIM", stream, GROUP, consumer, 0, *those, "JUSTID") for stream, those in ids.items()]

    def drop(self, entries: Iterable[StreamEntry]) -> list[RedisCommand]:
        """Return the commands that delete and acknowledge `entries`, each in its own stream.

        The order matters, because some full servers refuse a transaction. An entry that is deleted and still pending is
        read again, without fields, and dropped then. An entry that is acknowledged and not deleted would stay for ever.
        """
        commands: list[RedisCommand] = []
        for stream, ids in _by_stream(entries).items():
            commands += (("XDEL", stream, *ids), ("XACK", stream, GROUP, *ids))
        return commands


def _by_stream(entries: Iterable[StreamEntry]) -> dict[str, list[bytes]]:
    ids: dict[str, list[bytes]] = {}
    for entry in entries:
        ids.setdefault(entry.stream, []).append(entry.entry_id)
    return ids


def short(problem: Problem) -> Problem:
    """Return a problem with truncated texts and without its last errors, so that it fits into DEAD_PROBLEM_BYTES."""
    kept: list[FieldError] = []
    left = DEAD_PROBLEM_BYTES - 6 * DEAD_TEXT - 1000  # as JSON a letter may take six bytes
    for error in problem.errors:
        texts = {"pointer": error.pointer[:DEAD_TEXT], "message": error.message[:DEAD_TEXT]}
        short = error.model_copy(update=texts)
        left -= len(codec.encode(short))
        if left < 0:
            break
        kept.append(short)
    return problem.model_copy(update={"detail": problem.detail[:DEAD_TEXT], "errors": tuple(kept)})


def _beside(entry: StreamEntry) -> dict[bytes, bytes]:
    """Return the fields of an entry without its message, truncated to the limits of the dead stream."""
    kept: dict[bytes, bytes] = {}
    left = DEAD_FIELDS_BYTES
    for name, value in entry.fields.items():
        if name != DATA and len(kept) < DEAD_FIELDS and len(name) < left:
            kept[name] = value[: left - len(name)]
            left -= len(name) + len(kept[name])
    return kept
