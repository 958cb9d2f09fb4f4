"""The part of a plan that a decision can touch, as the store's begin returns it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.step import OMITTED
from schemas.stored import Attempt, PlanRecord, StepStatus
from schemas.stored.step import read_step
from tasks.base.policy import BUILT_IN, Policy
from tasks.plan.file_claims import FileClaims

NOTE = "="  # before the name of a note among the steps of a plan; no step is called so
READY_PAGE = 4  # ready steps that a decision reads, plus one for each reported end: files of some may be taken
WINDOW = 64  # dependents that are read and changed together; a step with more has several windows


@dataclass(slots=True)
class Step:
    """A step in the snapshot; `spec` is its encoded static part, and None if begin left it out."""

    step_id: str
    spec: bytes | None
    status: StepStatus
    stored: dict[str, Any] | None = None
    complete: dict[str, Any] = field(default_factory=dict)
    texts: Sequence[str] = ()  # shared texts of its plan; `spec` has their numbers
    card: Any = None  # see tasks/policy/starts.py

    @property
    def facts(self) -> dict[str, Any]:
        """The static part, decoded once, with defaults for omitted fields."""
        if self.stored is None:
            self.stored = read_step(self.spec, self.texts) if self.spec else {}
            self.complete = {**OMITTED, **self.stored}
        return self.complete


class Window(NamedTuple):
    """A page of the dependents of a step, and whether the step has a next page."""

    dependents: Sequence[str]
    more: bool = False


class Lease(NamedTuple):
    """The contents of an attempt's lease, as controllers wrote them; times in ms, 0 for never.

    `controller` is the name of the claimant. `ttl` is how long the controller asked to keep the lease without a
    renewal.
    """

    attempt: int
    claimed: int
    renewed: int
    controller: str = ""
    ttl: int = 0


class StandingCommand(NamedTuple):
    """An operator's bulk command as it applies to this plan; `until` in ms, 0 for no end."""

    command: str  # pause, halt or cancel
    scope: str  # such as tenant:acme
    actor: str
    reason: str
    command_id: str
    until: int = 0

    @classmethod
    def read(cls, command: str, scope: str, record: Mapping[str, Any]) -> StandingCommand:
        """Read a stored command; keys of newer versions are ignored."""
        return cls(command, scope, record["actor"], record["reason"], record["command_id"], record["until"])


class Grant(NamedTuple):
    """The rest of a day budget that a partition may use; `exhausted` if the day budget has no more to give."""

    left: int
    exhausted: bool = False


class Clocks(NamedTuple):
    """Times that a sweep knows in addition to the plans; in ms, 0 for none."""

    grace: int = 0  # sweeping began again after a gap: before this time silence of controllers was not seen
    down: int = 0  # total time without a sweep
    oldest: int = 0  # time of the oldest outcome that is not applied yet


@dataclass(slots=True)
class Snapshot:
    """A plan's state, the named steps, a page of their dependents, the attempts in flight and the first ready steps.

    `windows` has the keys (step id, window number). `todo` has the first items of left-over work, as such keys.
    """

    plan_id: str
    now: int
    record: PlanRecord
    steps: dict[str, Step]
    windows: dict[tuple[str, int], Window]
    active: dict[str, Attempt]
    ready: list[str]
    todo: list[tuple[str, int]]
    reply_to: str
    lease_prefix: str
    ready_beyond: bool = False  # whether the queue may hold more than `ready`
    todo_beyond: int = 0  # items of left-over work behind those in `todo`
    leases: dict[str, Lease] = field(default_factory=dict)
    knows_leases: bool = False  # whether the leases were read
    standing: StandingCommand | None = None
    grants: Mapping[str, Grant] = field(default_factory=dict)  # scope -> its grant; without one there is no limit
    notes: dict[str, bytes] = field(default_factory=dict)  # notes that were asked for; b"" for one that does not exist
    full: Collection[str] = ()  # queues that take no more specs for now
    paused_queues: Mapping[str, StandingCommand] = field(default_factory=dict)  # their steps do not start
    probe: str = ""  # the token of a step that may start although its repository is paused
    short_of_memory: bool = False
    policy: Policy = BUILT_IN  # of the plan's creation
    code: str = ""  # the version of the deciding code, which the log names
    claims: FileClaims | None = None  # of the repository's plans, if they were asked for
    same: tuple[str, ...] = ()  # claims of a new plan in addition to files (tasks/features/duplicates.py)
