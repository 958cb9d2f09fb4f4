"""The value that every decision returns: the writes of one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from schemas.base import Verdict
from schemas.stored import Attempt
from tasks.plan.end_sum import EndSum

MAX_STEP_CHANGES = 96  # of one commit; with these a commit stays below 1000 arguments
MAX_DISPATCHES = 32


class Dispatch(NamedTuple):
    """A spec to add to a queue, with the attempt that it starts and the key of its lease."""

    step_id: str
    attempt: Attempt
    spec: bytes


class HistoryChange(NamedTuple):
    """A change of a counter that plans of one kind and repository leave to later ones (part `recall`).

    The repository chooses the partition of its plans, and the counters are in that partition. So a plan's own commits
    write them.
    """

    name: str  # of `plan_history`
    field: str
    seen: int | str  # the value at the decision; "" if it does not matter
    change: int | str  # "" drops it


class KeptChange(NamedTuple):
    """A change of a value that the plans of a tenant's repository keep for each other (part `kept`).

    If there are more than `most` fields, the oldest is dropped. All fields expire if none was put for `kept_s` seconds.
    They are in the partition of the plan, which its repository chooses.
    """

    name: str  # of `kept_name`
    field: str
    value: bytes  # b"" drops it
    most: int
    kept_s: int
    of: str = ""  # the plan that put the field to drop; a field that another plan put stays


def kept_name(what: str, tenant: str, repo: str | None) -> str | None:
    """Return the name under which a tenant's repository keeps the values `what`; None without a repository."""
    owner = f"{tenant}\0{repo}".encode()
    return f"{what}:{blake2b(owner, digest_size=16).hexdigest()}" if repo else None


class UsedTokens(NamedTuple):
    """The number of tokens that an attempt used, for the estimates of later plans (part `used`)."""

    name: str  # of its mode and queue
    tokens: int


class RecordedAttempt(NamedTuple):
    """The result of an attempt, for later plans of its repository (part `memory`)."""

    name: str  # of the list, see tasks/memory/outcomes.py
    record: bytes  # b"" only refreshes the newest record


WHOLE, FIRST = "=", "^"  # where a claim goes: see ClaimChange


class ClaimChange(NamedTuple):
    """A change of the claims on a file (part `claim`): by default it appends the plan's claim.

    If `where` is a plan's id, the claim goes before the claim of that plan. FIRST means that the plan's waiting claim
    is now the first one. WHOLE replaces all claims. The commit compares `seen` with the present claims: it is their
    mark; for WHOLE it is the claims themselves. FIRST needs no comparison.
    """

    repository: str  # as `claims_name` has it
    file: str
    seen: str
    claim: str
    where: str = ""


def claims_name(tenant: str, repo: str) -> str:
    """Return the name of the claims of a tenant's plans on the files of a repository."""
    return blake2b(f"{tenant}\0{repo}".encode(), digest_size=16).hexdigest()


class CountedFailure(NamedTuple):
    """A failure of a plan, as it is counted for its repository; the empty `signature` equals no other.

    `told` describes the failure for people. `verifies` is true if the step has a verification.
    """

    signature: str
    verifies: bool
    plan_id: str
    step_id: str
    attempt: int
    category: str
    told: str


class ProbeNews(NamedTuple):
    """The news of a probe, a step that may run while its repository is paused: it was started, is done, or failed."""

    token: str
    what: str
    verifies: bool
    plan_id: str
    step_id: str
    attempt: int


def plan_history(kind: str, tenant: str, repo: str | None) -> str | None:
    """Return the name of the counters shared by plans of one kind, tenant and repository; None without a repository."""
    return blake2b(f"{kind}\0{tenant}\0{repo}".encode(), digest_size=16).hexdigest() if repo else None


@dataclass(slots=True)
class Changeset:
    """The writes of one commit; if `changed` is false it only acknowledges entries and keeps the version."""

    plan_id: str
    expected: int
    now: int
    changed: bool = False
    fields: dict[str, bytes] = field(default_factory=dict)
    statuses: dict[str, bytes] = field(default_factory=dict)
    specs: dict[str, bytes] = field(default_factory=dict)
    ready_add: dict[str, int] = field(default_factory=dict)
    ready_remove: list[str] = field(default_factory=list)
    ended: dict[str, Attempt] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)  # of those in `ended`: their controllers have to stop
    worked: dict[str, bool] = field(default_factory=dict)  # of those in `ended`: the counted ones, and if done
    dispatches: list[Dispatch] = field(default_factory=list)
    wake: int | None = None  # time of the next look at the plan, in ms; 0 for never, None keeps the present one
    todo_pop: int = 0
    todo_push: list[tuple[str, int]] = field(default_factory=list)
    events: list[tuple[str, bytes]] = field(default_factory=list)
    log: bytes = b""
    ends: bool = False
    tenant: str = ""  # of a plan that begins or ends
    more: bool = False  # work is left: look at the plan again
    wider: bool = False  # slots are free, but the ready steps that were read cannot fill them: read more
    guards: dict[str, int] = field(default_factory=dict)  # step -> the renewal of its lease that this decision rests on
    actions: dict[str, str] = field(default_factory=dict)  # step in flight -> the action of its controller from now on
    call_limits: dict[str, int] = field(default_factory=dict)  # step that starts -> tool calls of its attempt
    taken: dict[str, int] = field(default_factory=dict)  # scope -> tokens taken from its grant; below 0: given back
    rests_on: dict[str, int] = field(default_factory=dict)  # scope -> tokens left of its grant, if an attempt started
    short: dict[str, int] = field(default_factory=dict)  # scope -> tokens that its grant lacked
    history: list[HistoryChange] = field(default_factory=list)
    used: list[UsedTokens] = field(default_factory=list)
    memory: list[RecordedAttempt] = field(default_factory=list)
    kept: list[KeptChange] = field(default_factory=list)
    claims: list[ClaimChange] = field(default_factory=list)
    keeps: list[tuple[str, str]] = field(default_factory=list)  # of a plan that ends: `claims_name`, delivered file
    lists: list[str] = field(default_factory=list)  # of plans: all that the plan is in now; none: those that it was in
    sum: EndSum | None = None  # of a plan that ends: its figures for the sums of its tenant and repository
    failures: list[tuple[str, CountedFailure]] = field(default_factory=list)  # series, and the failure to count in it
    probe: tuple[str, ProbeNews] | None = None  # series, and the result of the probe
    settles: str = ""  # the verdict of its goal, where that waited for an answer
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def concerns_repository(self) -> bool:
        """Return whether the commit counts a failure or news of a probe for the plan's repository."""
        return bool(self.failures or self.probe)


class PlainStart(Struct, frozen=True, gc=False):
    """An attempt that starts: its step, the status to write, its spec, its record and its event."""

    step_id: str
    status: bytes
    spec: bytes
    record: bytes
    event: bytes
    attempt: Attempt


class PlainEnd(Struct, frozen=True, gc=False):
    """The end of a completed plan: its part of the sums, the event, and all lists that have the plan from now on."""

    sum: EndSum
    event: bytes
    lists: Sequence[str]


class PlainChange(Struct, frozen=True, gc=False):
    """The writes of a plain decision; they raise the plan's version by one and write its field `live`."""

    plan_id: str
    expected: int
    now: int
    live: bytes
    log: bytes
    entry: str  # of the outcome
    step_id: str  # that is done
    status: bytes
    ended: Attempt
    event: bytes
    starts: Sequence[PlainStart]
    statuses: Sequence[tuple[str, bytes]]  # of dependents that do not start yet
    ready_add: Sequence[tuple[str, int]]
    ready_remove: Sequence[str]
    wake: int | None  # as in Changeset
    used: UsedTokens | None
    end: PlainEnd | None
    booked: int  # tokens
    memory: tuple[str, bytes] | None = None  # as RecordedAttempt
