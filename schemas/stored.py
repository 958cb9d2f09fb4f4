"""What is kept of a plan in Redis beside the static specs: small records, each read and written whole.

Every value that a script hands over costs the server time, so what changes together is one field.
Workers of two versions may share a server. What a newer one adds, behind the known elements of an array or as another
key of an object, is kept as it was read in `unknown` and written again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from schemas import codec

Usage = dict[str, int]

DELIVERY = "delivery"  # among what is counted of a plan: how its delivery stands
FILE_WAITS = "file_waits"  # as well: step, "" for the whole plan -> the file that it waits for, and the plan before it

USAGE_NAMES = ("tokens", "patch_cycles", "tool_calls", "failing_outcomes")


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


@dataclass(slots=True)
class PlanHead:
    """What the hot path needs of a plan and what outcomes never change."""

    goal_id: str
    kind: str
    tenant: str
    repo: str | None
    seed: str  # leases of this plan are made from it
    context: dict[str, Any]  # repo, base_sha and failing tests, as they go out in every spec
    limits: dict[str, int | None]
    approvals: list[str] = field(default_factory=list)  # risk levels at which a step waits for a person
    tightened: list[str] | None = None  # an operator left only these files
    policy_version: int = 1  # of the tables by which the plan was made, and goes on
    tools: list[dict[str, Any]] = field(default_factory=list)  # contracts of an operator that it rests on
    streak: str | None = (
        None  # counters, with blanks between, of those that plans leave to each other: how many failed in a row
    )
    # Left out of the record where there is none.
    traceparent: str | None = None  # of the trace that the plan belongs to
    policy: str | None = None  # the digest of the policy that the plan was made under, and goes on under
    cache: list[Any] | None = None  # what it has to do with the plan cache, see tasks/plan/cached_draft.py
    unknown: dict[str, Any] | None = field(default=None, init=False)

    @classmethod
    def decode(cls, raw: bytes) -> PlanHead:
        """Read what `encode` of this version or a newer one wrote."""
        record = codec.loads(raw)
        try:
            return cls(**record)  # nearly always; to compare the names first would cost each outcome
        except TypeError:
            known, unknown = _split(record, HEAD_FIELDS)
            found = cls(**known)
            found.unknown = unknown
            return found

    def encode(self) -> bytes:
        """Write the record as a JSON object."""
        record = {name: getattr(self, name) for name in HEAD_FIELDS}
        for name in OMITTED_FIELDS:
            if record[name] is None:
                del record[name]
        return codec.dumps({**record, **(self.unknown or {})})


OMITTED_FIELDS = ("traceparent", "policy", "cache")
HEAD_FIELDS = tuple(each.name for each in fields(PlanHead) if each.name != "unknown")


@dataclass(slots=True)
class PlanRecord:
    """The plan's own state. `HOT` names the hash fields that begin reads; `live` holds all that outcomes change."""

    version: int
    state: str
    head: PlanHead
    reserved: Usage
    spent: Usage
    counters: dict[str, Any]
    counts: dict[str, int]
    times: dict[str, int]
    revision: int
    paused: str = ""  # by whom and why, by a command about this plan
    paused_until: int = 0  # ms; 0 for until it is resumed
    held: str = ""  # why it starts nothing, by what is wider than this plan
    wake: int = 0  # when the plan's timer runs out, ms; 0 for none
    waits: dict[str, int] = field(default_factory=dict)  # step -> until when a person may approve it, ms
    backoffs: dict[str, int] = field(default_factory=dict)  # step -> when its next attempt may start, ms
    commands: list[str] = field(default_factory=list)  # the last commands that were obeyed, by id
    warned: list[str] = field(default_factory=list)  # budgets of which an event has said that they run low
    question: dict[str, Any] | None = None  # what a person is asked: kind, questions, asked and until in ms
    strategy_state: bytes = b""  # what the strategy of a plan that unfolds keeps, as JSON; read by those plans alone
    halt: dict[str, Any] | None = None
    unknown: dict[str, Any] | None = field(default=None, init=False)  # keys of `live`
    dirty: set[str] = field(default_factory=set, init=False)  # of the hash fields below

    @property
    def limits(self) -> dict[str, int | None]:
        """What the plan may use up."""
        return self.head.limits

    @property
    def delivered(self) -> dict[str, str]:
        """What was delivered of the plan's changes, and why not all that its goal asks for."""
        found = self.counters.get(DELIVERY, {})
        return {name: found[name] for name in ("branch", "pull_request", "undelivered") if name in found}

    @property
    def file_waits(self) -> dict[str, list[str]]:
        """What waits for files that other plans claim: step, "" for the whole plan -> file and plan."""
        found: dict[str, list[str]] = self.counters.get(FILE_WAITS, {})
        return found

    @property
    def cause(self) -> str:
        """What ended the plan, for the verdict of its goal: what was wrong with that, else the rule."""
        halt = self.halt or {}
        found: str = halt.get("reason" if halt.get("rule") == "rejected" else "rule", "")
        return found

    def encode(self, name: str) -> bytes:
        """Write one field of the plan's hash."""
        if name == "live":
            live: dict[str, Any] = {
                "reserved": self.reserved,
                "spent": self.spent,
                "counters": self.counters,
                "counts": self.counts,
                "times": self.times,
                "revision": self.revision,
                "wake": self.wake,
            }
            if any(seldom := _seldom_of(self)):
                live |= {name: value for name, value in zip(SELDOM, seldom, strict=True) if value}
            if self.unknown:
                live |= self.unknown
            return codec.dumps(live)
        if name == "head":
            return self.head.encode()
        if name == "strategy_state":
            return self.strategy_state
        return codec.dumps(self.halt) if name == "halt" else self.state.encode()


HOT = ("version", "state", "head", "live", "strategy_state")
# Keys of `live`: those that always stand there, and those that are stored where there is any.
ALWAYS = ("reserved", "spent", "counters", "counts", "times", "revision", "wake")
SELDOM = ("paused", "paused_until", "held", "waits", "backoffs", "commands", "warned", "question")
_seldom_of = attrgetter(*SELDOM)


def decode_plan(raw: list[bytes | None]) -> PlanRecord:
    """Read the values of the fields `HOT`, in their order, also where a newer version wrote them."""
    version, state, head, live, strategy_state = (value or b"" for value in raw[: len(HOT)])
    return decode_live(int(version), state.decode(), PlanHead.decode(head), live, strategy_state)


def decode_live(version: int, state: str, head: PlanHead, live: bytes, strategy_state: bytes) -> PlanRecord:
    """Read the field `live` of a plan whose other fields are known."""
    record = codec.loads(live)
    try:
        return PlanRecord(version, state, head, strategy_state=strategy_state, **record)
    except TypeError:
        known, unknown = _split(record, ALWAYS + SELDOM)
        found = PlanRecord(version, state, head, strategy_state=strategy_state, **known)
        found.unknown = unknown
        return found


def _split(record: dict[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a record into the keys of `names` and the keys that a newer version has added."""
    known = {name: value for name, value in record.items() if name in names}
    return known, {name: value for name, value in record.items() if name not in names}
