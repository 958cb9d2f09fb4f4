"""The changing part of a step, as a plan stores it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from schemas import codec


@dataclass(slots=True)
class StepStatus:
    """The changing part of a step: an array of its fields, with `unmet` first because begin reads it in Lua."""

    unmet: int
    state: str
    index: int
    attempt: int = 0
    failures: int = 0
    digest: str = ""
    signature: str = ""
    repeats: int = 0
    skipped_by: str = ""
    previous: dict[str, Any] | None = None
    approval: str = ""  # "", "asked" or who gave it
    unknown: tuple[Any, ...] = field(default=(), init=False)

    @classmethod
    def decode(cls, raw: bytes) -> StepStatus:
        """Read what `encode` of this version or a newer one wrote."""
        record = codec.loads(raw)
        if len(record) <= STATUS_SIZE:  # nearly always
            return cls(*record)
        found = cls(*record[:STATUS_SIZE])
        found.unknown = tuple(record[STATUS_SIZE:])
        return found

    @property
    def columns(self) -> tuple[Any, ...]:
        """The fields in their order, behind them what a newer version added."""
        known = (
            *(self.unmet, self.state, self.index, self.attempt, self.failures, self.digest),
            *(self.signature, self.repeats, self.skipped_by, self.previous, self.approval),
        )
        return known + self.unknown

    def encode(self) -> bytes:
        """Write the record as a JSON array in the order of the fields, without most of the last that are empty."""
        if self.signature or self.repeats or self.skipped_by or self.previous or self.approval or self.unknown:
            return codec.dumps(self.columns)
        if self.attempt or self.failures or self.digest:
            return codec.dumps((self.unmet, self.state, self.index, self.attempt, self.failures, self.digest))
        return codec.dumps((self.unmet, self.state, self.index))


STATUS_SIZE = len(fields(StepStatus)) - 1  # elements that this version knows
