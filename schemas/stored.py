"""What is kept of a plan in Redis beside the static specs: small records, each read and written whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas import codec

Usage = dict[str, int]  # tokens, patch_cycles, tool_calls, failing_outcomes

USAGE_NAMES = ("tokens", "patch_cycles", "tool_calls", "failing_outcomes")


@dataclass(slots=True)
class StepStatus:
    """The changing part of a step: an array, with `unmet` first because begin reads it in Lua."""

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

    @classmethod
    def decode(cls, raw: bytes) -> StepStatus:
        """Read what `encode` wrote."""
        return cls(*codec.loads(raw))

    def encode(self) -> bytes:
        """Write the record as a JSON array in the order of the fields."""
        return codec.dumps(
            (
                self.unmet,
                self.state,
                self.index,
                self.attempt,
                self.failures,
                self.digest,
                self.signature,
                self.repeats,
                self.skipped_by,
                self.previous,
            )
        )


@dataclass(slots=True)
class Attempt:
    """An attempt in flight: what it holds until something ends it."""

    attempt: int
    lease: str
    queue: str
    files: list[str]
    tokens: int
    patch_cycles: int
    at: int
    deadline: int
    entry: str = ""  # the spec's stream entry id; commit writes it in front of the record

    @classmethod
    def decode(cls, raw: bytes) -> Attempt:
        """Read `<entry> <json array>`."""
        entry, _, record = raw.partition(b" ")
        found = cls(*codec.loads(record))
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
            )
        )


@dataclass(slots=True)
class PlanHead:
    """What the hot path needs of a plan and what never changes."""

    goal_id: str
    kind: str
    tenant: str
    repo: str | None
    seed: str  # leases of this plan are made from it
    context: dict[str, Any]  # repo, base_sha and failing tests, as they go out in every spec

    @classmethod
    def decode(cls, raw: bytes) -> PlanHead:
        """Read what `encode` wrote."""
        return cls(*codec.loads(raw))

    def encode(self) -> bytes:
        """Write the record as a JSON array in the order of the fields."""
        return codec.dumps((self.goal_id, self.kind, self.tenant, self.repo, self.seed, self.context))


@dataclass(slots=True)
class PlanRecord:
    """The plan's own state; `HOT` names the hash fields that begin reads, in the order of these."""

    version: int
    state: str
    head: PlanHead
    limits: dict[str, int | None]
    reserved: Usage
    spent: Usage
    halting: dict[str, Any]
    counts: dict[str, int]
    times: dict[str, int]
    revision: int
    paused: str = ""
    halt: dict[str, Any] | None = None
    dirty: set[str] = field(default_factory=set)


HOT = ("version", "state", "head", "limits", "reserved", "spent", "halting", "counts", "times", "revision", "paused")
JSON_FIELDS = frozenset({"limits", "reserved", "spent", "halting", "counts", "times", "halt"})


def decode_plan(raw: list[bytes | None]) -> PlanRecord:
    """Read the values of the fields `HOT`, in their order."""
    version, state, head, limits, reserved, spent, halting, counts, times, revision, paused = (
        value or b"" for value in raw[: len(HOT)]
    )
    loads = codec.loads
    return PlanRecord(
        version=int(version),
        state=state.decode(),
        head=PlanHead.decode(head),
        limits=loads(limits),
        reserved=loads(reserved),
        spent=loads(spent),
        halting=loads(halting),
        counts=loads(counts),
        times=loads(times),
        revision=int(revision),
        paused=paused.decode(),
    )


def encode_field(record: PlanRecord, name: str) -> bytes:
    """Write one field of the plan's hash."""
    value = getattr(record, name)
    if name in JSON_FIELDS:
        return codec.dumps(value)
    return value.encode() if name == "head" else str(value).encode()
