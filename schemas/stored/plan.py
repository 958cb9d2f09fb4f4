"""A stored plan: the part that outcomes never change, and the part that they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar

from schemas import codec
from schemas.stored.counters import Counters, Growth, LogHead, Streaks, Structure
from schemas.stored.features import FeatureParts
from schemas.stored.part import Part, PartOf, split
from schemas.stored.spending import Spending, Usage

P = TypeVar("P", bound=Part)


@dataclass(slots=True)
class PlanHead:
    """The constant part of a plan that the hot path reads."""

    goal_id: str
    kind: str
    tenant: str
    repo: str | None
    seed: str  # leases of this plan are made from it
    context: dict[str, Any]  # repo, base_sha, failing tests and digests of instructions, as every spec has them
    limits: dict[str, int | None]
    approvals: list[str] = field(default_factory=list)  # a person approves steps at these risk levels
    tightened: list[str] | None = None  # an operator left only these files
    policy_version: int = 1  # of the rules for its creation and all later decisions
    tools: list[dict[str, Any]] = field(default_factory=list)  # contracts of an operator that it rests on
    streak: str | None = (
        None  # counters, with blanks between, of those that plans leave to each other: how many failed in a row
    )
    # Left out of the record where there is none.
    traceparent: str | None = None  # of the trace that the plan belongs to
    policy: str | None = None  # the digest of the policy that the plan was made under, and goes on under
    cache: list[Any] | None = None  # its use of the plan cache, see tasks/plan/cached_draft.py
    learned: dict[str, int] | None = None  # tokens of an attempt by mode and queue, see tasks/features/estimates.py
    forbidden: list[str] | None = None  # names, of an operator's own list, that patterns of its steps mean nothing of
    tested: bool | None = None  # whether its first steps run tests after a change
    memory: dict[str, Any] | None = None  # what its attempts are recorded under, see tasks/features/outcome_memory.py
    unknown: dict[str, Any] | None = field(default=None, init=False)

    @classmethod
    def decode(cls, raw: bytes) -> PlanHead:
        """Decode the output of `encode`, of this version or a newer one."""
        record = codec.loads(raw)
        try:
            return cls(**record)  # nearly always; to compare the names first would cost each outcome
        except TypeError:
            known, unknown = split(record, HEAD_FIELDS)
            found = cls(**known)
            found.unknown = unknown
            return found

    def encode(self) -> bytes:
        """Return the record as a JSON object."""
        record = {name: getattr(self, name) for name in HEAD_FIELDS}
        for name in OMITTED_FIELDS:
            if record[name] is None:
                del record[name]
        return codec.dumps({**record, **(self.unknown or {})})


OMITTED_FIELDS = ("traceparent", "policy", "cache", "learned", "forbidden", "tested", "memory")
HEAD_FIELDS = tuple(each.name for each in fields(PlanHead) if each.name != "unknown")


@dataclass(slots=True)
class PlanRecord(FeatureParts):
    """The plan's own state. `HOT` names the hash fields that begin reads; `live` has all that outcomes change."""

    version: int
    state: str
    head: PlanHead
    reserved: Usage
    spent: Usage
    counts: dict[str, int]
    times: dict[str, int]
    revision: int
    paused: str = ""  # the person and the reason, of a command about this plan
    paused_until: int = 0  # ms; 0 for until it is resumed
    held: str = ""  # why it starts nothing, by a wider hold
    wake: int = 0  # when the plan's timer runs out, ms; 0 for none
    waits: dict[str, int] = field(default_factory=dict)  # step -> until when a person may approve it, ms
    backoffs: dict[str, int] = field(default_factory=dict)  # step -> when its next attempt may start, ms
    commands: list[str] = field(default_factory=list)  # the last commands that were obeyed, by id
    warned: list[str] = field(default_factory=list)  # budgets that an event has reported as low
    question: dict[str, Any] | None = None  # the open question: kind, questions, asked and until in ms
    strategy_state: bytes = b""  # the state of an expanding plan's strategy, as JSON; only such plans read it
    halt: dict[str, Any] | None = None
    # What every outcome changes is read at once; `parts` has the others, as stored until one is asked for.
    log: LogHead = field(default_factory=LogHead)
    counters: Counters = field(default_factory=Counters)
    streaks: Streaks = field(default_factory=Streaks)
    parts: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, Any] | None = field(default=None, init=False)  # keys of `live`
    dirty: set[str] = field(default_factory=set, init=False)  # of the hash fields below

    growth = PartOf(Growth)
    structure = PartOf(Structure)
    spending = PartOf(Spending)

    @property
    def limits(self) -> dict[str, int | None]:
        """The limits of the plan."""
        return self.head.limits

    @property
    def cause(self) -> str:
        """The cause of the plan's end, for the verdict of its goal: the fault of the goal, else the rule."""
        halt = self.halt or {}
        found: str = halt.get("reason" if halt.get("rule") == "rejected" else "rule", "")
        return found

    @property
    def doubt(self) -> str | None:
        """The doubts that a person has to check; None if there are none."""
        word = self.reports.doubt or self._word_doubt
        parts = (self.changed_tests.doubt, word, self.unjudged.doubt, self.integrity.doubt, self.instructions.left_out)
        return "; ".join(filter(None, parts)) or None

    @property
    def _word_doubt(self) -> str | None:
        """The doubt about a completed plan that runs tests, if no controller sent a complete report of them."""
        if not self.head.tested or self.state != "COMPLETED" or self.reports.whole:
            return None
        return "unverified: no controller sent a report of its tests"

    def encode(self, name: str) -> bytes:
        """Return one encoded field of the plan's hash."""
        if name == "live":
            return self.encode_live()
        if name == "head":
            return self.head.encode()
        if name == "strategy_state":
            return self.strategy_state
        return codec.dumps(self.halt) if name == "halt" else self.state.encode()

    def encode_live(self) -> bytes:
        """Return the encoded field `live`: everything that outcomes change."""
        live: dict[str, Any] = {
            "reserved": self.reserved,
            "spent": self.spent,
            "counts": self.counts,
            "times": self.times,
            "revision": self.revision,
            "wake": self.wake,
        }
        if log := self.log.stored():
            live["log"] = log
        if counters := self.counters.stored():
            live["counters"] = counters
        if streaks := self.streaks.stored():
            live["streaks"] = streaks
        for name, part in self.parts.items():
            if stored := part.stored() if isinstance(part, Part) else part:
                live[name] = stored
        if any(seldom := _seldom_of(self)):
            live |= {name: value for name, value in zip(SELDOM, seldom, strict=True) if value}
        if self.unknown:
            live |= self.unknown
        return codec.dumps(live)

    def rested(self, now: int) -> int:
        """Return how long the plan stood still so far (ms), outages of the planner excluded.

        Controllers continue to work while the planner is down.
        """
        times = self.times
        still = now - times["still"] if "still" in times else 0
        return times.get("lost", 0) - times.get("outages", 0) + still

    def wake_by(self, due: int) -> bool:
        """Set the timer to `due` (ms), unless it already runs out by then; returns whether it changed."""
        if self.wake and due >= self.wake:
            return False
        self.wake = due
        return True

    def keep(self, name: str, part: Part) -> None:
        """Store a part in its place among the others, so that equal records have equal bytes."""
        found = {**self.parts, name: part}
        self.parts = {name: found[name] for name in PARTS if name in found}

    def keeps(self, kind: type[Part]) -> bool:
        """Return whether anything is stored of this kind of part."""
        name = NAMES[kind]
        part = getattr(self, name) if name in OFTEN else self.parts.get(name)
        return bool(part.stored() if isinstance(part, Part) else part)

    def forget_step(self, step_id: str) -> None:
        """Drop the data of a step that its parts keep only until it ends."""
        for found in _often_by_step(self):
            if found:
                found.pop(step_id, None)
        if self.parts:
            for name, kept in PARTS_BY_STEP:
                if name in self.parts and (found := getattr(getattr(self, name), kept)):
                    found.pop(step_id, None)


HOT = ("version", "state", "head", "live", "strategy_state")
# Keys of `live`: those that are always present, and those that are stored if they have a value.
ALWAYS = ("reserved", "spent", "counts", "times", "revision", "wake")
SELDOM = ("paused", "paused_until", "held", "waits", "backoffs", "commands", "warned", "question")
_seldom_of = attrgetter(*SELDOM)
OFTEN: Mapping[str, type[Part]] = MappingProxyType({"log": LogHead, "counters": Counters, "streaks": Streaks})
PARTS: Mapping[str, type[Part]] = MappingProxyType(
    {
        **OFTEN,
        **{
            name: value.kind
            for name, value in (*vars(PlanRecord).items(), *vars(FeatureParts).items())
            if isinstance(value, PartOf)
        },
    }
)
_often_by_step = attrgetter(*[f"{name}.{kept}" for name, kind in OFTEN.items() for kept in kind.BY_STEP])
PARTS_BY_STEP = tuple((name, kept) for name, kind in PARTS.items() if name not in OFTEN for kept in kind.BY_STEP)
NAMES: Mapping[type[Part], str] = MappingProxyType({kind: name for name, kind in PARTS.items()})


def decode_plan(raw: list[bytes | None]) -> PlanRecord:
    """Decode the values of the fields `HOT`, in their order, of this version or a newer one."""
    version, state, head, live, strategy_state = (value or b"" for value in raw[: len(HOT)])
    return decode_live(int(version), state.decode(), PlanHead.decode(head), live, strategy_state)


def decode_live(version: int, state: str, head: PlanHead, live: bytes, strategy_state: bytes) -> PlanRecord:
    """Decode the field `live` of a plan whose other fields are known."""
    record = codec.loads(live)
    parts = {name: record.pop(name) for name in PARTS if name in record}
    often: dict[str, Any] = {name: kind.read(parts.pop(name)) for name, kind in OFTEN.items() if name in parts}
    try:
        return PlanRecord(version, state, head, strategy_state=strategy_state, parts=parts, **often, **record)
    except TypeError:
        known, unknown = split(record, ALWAYS + SELDOM)
        found = PlanRecord(version, state, head, strategy_state=strategy_state, parts=parts, **often, **known)
        found.unknown = unknown
        return found


def read_part(live: Mapping[str, Any], kind: type[P]) -> P:
    """Decode one part from a field `live`."""
    found = live.get(NAMES[kind])
    return kind.read(found) if found else kind()


def decided(live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a field `live` that a replay compares.

    The timer depends on leases, which are no inputs of the plan. The head of the log depends on its lines, which are
    compared. The cost of a plan is no part of a decision.
    """
    spending = read_part(live, Spending)
    spending.cost = None
    found = {**live, NAMES[Spending]: spending.stored()}
    return {name: value for name, value in found.items() if name not in ("wake", NAMES[LogHead])}
