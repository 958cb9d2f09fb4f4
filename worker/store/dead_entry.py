"""One dead entry: what it said, its cause, and what is sent back."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from schemas import codec
from schemas.envelope import DATA
from schemas.times import rfc3339
from worker.store import keys

DEAD_DATA_BYTES = 64 * 1024  # kept of the message of an entry
BESIDE = "entry."  # what the names of an entry's other fields begin with in the dead stream
READABLE = "backslashreplace"  # how bytes are shown that are no UTF-8
REPLAYS = b"replays"  # field of an entry that was sent back: how often so far


class DeadStream(NamedTuple):
    """A dead stream: its short name, its key, and where its counters are.

    `inbound` are the streams whose entries it takes.
    """

    name: str
    key: str
    stats: str
    inbound: frozenset[str]


class Filter(NamedTuple):
    """Which entries are meant; empty fields mean all.

    `stream` is a place, or where entries came from or its end.
    """

    cause: str = ""
    stream: str = ""
    since_ms: int = 0

    def fits(self, dead: Dead) -> bool:
        """Whether `dead` is meant; its time is not looked at."""
        if self.cause and dead.code != self.cause:
            return False
        names = (dead.place.name, dead.place.key, dead.origin, dead.origin.rpartition(":")[2])
        return not self.stream or self.stream in names


@dataclass(frozen=True)
class Dead:
    """A dead entry.

    `record` is its DeadEntry as it stands there, {} where it is none.
    """

    place: DeadStream
    entry: str
    record: dict[str, Any]
    data: bytes
    beside: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What a person calls it by, such as `0/1699-0`."""
        return f"{self.place.name}/{self.entry}"

    @cached_property
    def problem(self) -> dict[str, Any]:
        """The RFC 9457 problem that it died of."""
        found = self.record.get("problem")
        return found if isinstance(found, dict) else {}

    @property
    def code(self) -> str:
        """The cause, as a word."""
        return str(self.problem.get("code", "unknown"))

    @property
    def origin(self) -> str:
        """The stream that it came from."""
        return str(self.record.get("stream", ""))

    @property
    def source(self) -> str:
        """The id that it had there."""
        return str(self.record.get("entry", ""))

    @property
    def size(self) -> int:
        """Bytes of its largest part, before anything was cut."""
        size = self.record.get("size")
        return size if isinstance(size, int) else len(self.data)

    @property
    def whole(self) -> bool:
        """Whether all of it is kept."""
        return self.record.get("whole") is True

    @property
    def replays(self) -> int:
        """How often it was sent back before it died again."""
        count = self.beside.get(REPLAYS, b"0")
        return int(count) if count.isdigit() and len(count) < 10 else 0

    @property
    def millis(self) -> int:
        """When it died, ms, by the server's clock."""
        return int(self.entry.partition("-")[0])

    def obstacle(self, *, edited: bool = False) -> str | None:
        """Say why it cannot be sent back; None if it can."""
        if self.origin not in self.place.inbound:
            return f"it came from {self.origin!r}, which is no stream that the planner reads"
        if not self.whole and not edited:
            return f"only a part of its {self.size} bytes was kept"
        return None

    def again(self, data: bytes | None = None) -> dict[bytes, bytes]:
        """Lay out the entry that is sent back; `data` replaces what it said.

        A goal without an id gets that which it had, so that sending it twice makes one plan.
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
        """Lay it out as JSON.

        Data that is no UTF-8 stands in `data_base64`, with `data` null.
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
    """Read what stands in a dead stream, whoever wrote it."""
    fields = fields or {}
    try:
        record = codec.loads(fields.get(b"problem", b""))
    except codec.DecodeError:
        record = {}
    mark = BESIDE.encode()
    beside = {name.removeprefix(mark): value for name, value in fields.items() if name.startswith(mark)}
    return Dead(place, entry.decode(), record if isinstance(record, dict) else {}, fields.get(DATA, b""), beside)
