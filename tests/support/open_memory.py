"""The memory store with the inspection methods of tests, the same that `real_store` has for a server."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from schemas import codec
from tests.support.memory_store import MemoryStore, Stream
from tests.support.plans import PARTITION


class OpenMemory(MemoryStore):
    def fields(self, key: str) -> dict[str, Any]:
        return dict(self.hash(key))

    members = fields

    def listed(self, key: str) -> list[bytes]:
        return list(self.items(key))

    def specs(self, queue: str) -> list[dict[str, Any]]:
        return [codec.loads(fields[b"data"]) for fields in self.stream(queue).entries.values()]

    def read(self, stream: str, group: str) -> list[bytes]:
        found = self.stream(stream)
        found.groups[group] = set(found.entries)
        return list(found.entries)

    def pending(self, stream: str, group: str) -> int:
        return len(self.stream(stream).groups[group])

    def report(self, data: bytes) -> bytes:
        entry: bytes = self.stream(PARTITION.outcomes).add({b"data": data})
        return entry

    def put(self, key: str, text: str) -> None:
        self.keys[key] = text

    def end_lock(self, plan: str) -> None:  # noqa: ARG002 (time passes for all plans)
        self.wait(5000)

    def goes_in_s(self, key: str) -> int | None:
        return (self.expires[key] - self.now) // 1000 if key in self.expires else None

    def set_field(self, key: str, name: str, value: str) -> None:
        self.hash(key)[name] = value.encode()

    def everything(self) -> dict[str, Any]:
        return deepcopy({key: value for key, value in self.keys.items() if value and value != Stream()})
