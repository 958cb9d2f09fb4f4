"""An attempt in flight, as a plan stores it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from schemas import codec


@dataclass(slots=True)
class Attempt:
    """An attempt in flight, as an array of its fields but the last: what it holds until something ends it."""

    attempt: int
    lease: str
    queue: str
    files: list[str]
    tokens: int
    patch_cycles: int
    at: int
    deadline: int
    lost: int = 0  # ms that its plan had stood still when it began
    entry: str = ""  # the spec's stream entry id; commit writes it in front of the record

    @classmethod
    def decode(cls, raw: bytes) -> Attempt:
        """Read `<entry> <json array>`; an attempt is written once, so what a newer version added is not needed."""
        entry, _, record = raw.partition(b" ")
        found = cls(*codec.loads(record)[:ATTEMPT_SIZE])
        found.entry = entry.decode()
        return found

    def encode(self) -> bytes:
        """Write the record without its entry, which only the server knows."""
        return codec.dumps(
            (
                self.attempt,
                self.lease,
                self.queue,
                self.files,
                self.tokens,
                self.patch_cycles,
                self.at,
                self.deadline,
                self.lost,
            )
        )


ATTEMPT_SIZE = len(fields(Attempt)) - 1
