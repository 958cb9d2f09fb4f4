"""What every decision returns: the writes of one commit, as a value."""

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
    """A spec on its way to a queue, with the attempt that it starts and the lease that guards it."""

    step_id: str
    attempt: Attempt
    spec: bytes


class HistoryChange(NamedTuple):
    """A change of a counter that plans of one kind and repository leave to those after them (part `recall`).

    Counters lie in the partition of the plan, which its repository chooses, so a plan's own commits write them.
    """

    name: str  # of `plan_history`
    field: str
    seen: int | str  # what it was when that was decided; "" if that does not matter
    change: int | str  # "" drops it


class KeptChange(NamedTuple):
    """A change of what the plans of a tenant's repository remember for each other (part `kept`).

    The field that was first put goes first where there are more than `most`, all of them once nothing was put for
    `kept_s` seconds. They lie in the partition of the plan, which its repository chooses.
    """

    name: str  # of `kept_name`
    field: str
    value: bytes  # b"" drops it
    most: int
    kept_s: int
    of: str = ""  # the plan that put what is dropped, where that of another one stays


def kept_name(what: str, tenant: str, repo: str | None) -> str | None:
    """Name what the plans of a tenant's repository remember of `what`; None without a repository."""
    owner = f"{tenant}\0{repo}".encode()
    return f"{what}:{blake2b(owner, digest_size=16).hexdigest()}" if repo else None


class UsedTokens(NamedTuple):
    """How many tokens an attempt used, for the estimates of later plans (part `used`)."""

    name: str  # of its mode and queue
    tokens: int


class RecordedAttempt(NamedTuple):
    """What an attempt came to, for later plans of its repository (part `memory`)."""

    name: str  # of the list, see tasks/memory/outcomes.py
    record: bytes  # b"" only has the list last that is there


WHOLE, FIRST = "=", "^"  # where a claim goes: see ClaimChange


class ClaimChange(NamedTuple):
    """What becomes of the claims on a file (part `claim`): the plan's claim comes to their end.

    With `where` it goes before that of another plan; or it stays where it is, FIRST of all; or it is, WHOLE, all that
    stands there. The decision rests on `seen`: the mark of the claims, nothing for FIRST, all of them for WHOLE.
    """

    repository: str  # as `claims_name` has it
    file: str
    seen: str
    claim: str
    where: str = ""


def claims_name(tenant: str, repo: str) -> str:
    """Name the claims of a tenant's plans on the files of a repository."""
    return blake2b(f"{tenant}\0{repo}".encode(), digest_size=16).hexdigest()


class CountedFailure(NamedTuple):
    """A failure of a plan, as it is counted for its repository; the `signature` "" is like no other.

    `told` says for people what went wrong; `verifies` whether the step has a verification.
    """

    signature: str
    verifies: bool
    plan_id: str
    step_id: str
    attempt: int
    category: str
    told: str


class ProbeNews(NamedTuple):
    """What became of a step that was let through while its repository is paused: it was started, is done, or failed."""

    token: str
    what: str
    verifies: bool
    plan_id: str
    step_id: str
    attempt: int


def plan_history(kind: str, tenant: str, repo: str | None) -> str | None:
    """Name the counters that plans of one kind, tenant and repository share; None without a repository."""
    return blake2b(f"{kind}\0{tenant}\0{repo}".encode(), digest_size=16).hexdigest() if repo else None


@dataclass(slots=True)
class Changeset:
    """The writes of one commit; `changed` says whether the version moves, else it only acknowledges."""

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
    cancelled: set[str] = field(default_factory=set)  # of those ended: whose controllers have to stop
    worked: dict[str, bool] = field(default_factory=dict)  # of those ended: whose outcome counts, and as done or failed
    dispatches: list[Dispatch] = field(default_factory=list)
    wake: int | None = None  # when to look at the plan without being asked; 0 for never, None where that stays
    todo_pop: int = 0
    todo_push: list[tuple[str, int]] = field(default_factory=list)
    events: list[tuple[str, bytes]] = field(default_factory=list)
    log: bytes = b""
    ends: bool = False
    tenant: str = ""  # whose plan begins or ends
    more: bool = False  # work is left over: look at the plan again
    wider: bool = False  # slots are free, and what of the ready queue was read cannot fill them: look at more of it
    guards: dict[str, int] = field(default_factory=dict)  # step -> renewal of its lease on which this decision rests
    actions: dict[str, str] = field(default_factory=dict)  # step in flight -> what its controller is to do from now on
    taken: dict[str, int] = field(default_factory=dict)  # scope -> tokens taken from its grant; below 0: given back
    rests_on: dict[str, int] = field(default_factory=dict)  # scope -> what its grant had left, if something was started
    short: dict[str, int] = field(default_factory=dict)  # scope -> tokens that its grant lacked
    history: list[HistoryChange] = field(default_factory=list)
    used: list[UsedTokens] = field(default_factory=list)
    memory: list[RecordedAttempt] = field(default_factory=list)
    kept: list[KeptChange] = field(default_factory=list)
    claims: list[ClaimChange] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)  # of plans: all that the plan is in now; none: those that it was in
    sum: EndSum | None = None  # of a plan that ends: what it adds to the sums of its tenant and repository
    failures: list[tuple[str, CountedFailure]] = field(default_factory=list)  # series, and what is counted of it
    probe: tuple[str, ProbeNews] | None = None  # the same, and what became of the step that it let through
    settles: str = ""  # the verdict of its goal, where that waited for an answer
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def concerns_repository(self) -> bool:
        """Whether something is counted by this for the plan's repository."""
        return bool(self.failures or self.probe)


class PlainStart(Struct, frozen=True, gc=False):
    """An attempt that starts: its step with the status that is written, its spec, its record and its event."""

    step_id: str
    status: bytes
    spec: bytes
    record: bytes
    event: bytes
    attempt: Attempt


class PlainEnd(Struct, frozen=True, gc=False):
    """The end of a plan that is completed: what it adds to sums, the event, and all lists that the plan is in then."""

    sum: EndSum
    event: bytes
    lists: Sequence[str]


class PlainChange(Struct, frozen=True, gc=False):
    """The writes of a plain decision; the plan's version goes up by one, and its field `live` is written."""

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
