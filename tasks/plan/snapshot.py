"""The part of a plan that a decision can touch: what the store's begin answers."""

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
READY_PAGE = 4  # ready steps that a decision looks at, beside one for each end that is told: files of some may be taken
WINDOW = 64  # dependents that are read and changed together; a step with more has several windows


@dataclass(slots=True)
class Step:
    """A step in the snapshot; `spec` is its static part, encoded, and None where begin left it out."""

    step_id: str
    spec: bytes | None
    status: StepStatus
    stored: dict[str, Any] | None = None
    complete: dict[str, Any] = field(default_factory=dict)
    texts: Sequence[str] = ()  # of its plan, which `spec` has numbers for
    card: Any = None  # see tasks/policy/starts.py

    @property
    def facts(self) -> dict[str, Any]:
        """The static part, decoded once; what the store omits is filled in."""
        if self.stored is None:
            self.stored = read_step(self.spec, self.texts) if self.spec else {}
            self.complete = {**OMITTED, **self.stored}
        return self.complete


class Window(NamedTuple):
    """Some dependents of a step, and whether the step has a next window."""

    dependents: Sequence[str]
    more: bool = False


class Lease(NamedTuple):
    """What the controllers wrote into the lease of an attempt; times in ms, 0 for never.

    `controller` is the name under which it was claimed, `ttl` how long it asked to keep it without a renewal.
    """

    attempt: int
    claimed: int
    renewed: int
    controller: str = ""
    ttl: int = 0


class StandingCommand(NamedTuple):
    """An operator's command about more than one plan, as it stands for this one; `until` in ms, 0 for no end."""

    command: str  # pause, halt or cancel
    scope: str  # such as tenant:acme
    actor: str
    reason: str
    command_id: str
    until: int = 0

    @classmethod
    def read(cls, command: str, scope: str, record: Mapping[str, Any]) -> StandingCommand:
        """Read its record; keys that a newer version added do not matter to this one."""
        return cls(command, scope, record["actor"], record["reason"], record["command_id"], record["until"])


class Grant(NamedTuple):
    """What a partition may still use of a day budget; `exhausted` once there is no more to be had for the day."""

    left: int
    exhausted: bool = False


class Clocks(NamedTuple):
    """What a sweep knows beside the plans; times in ms, 0 for none."""

    grace: int = 0  # when sweeping went on after a gap: until then nobody knew who was silent
    down: int = 0  # how long, in all, nobody swept
    oldest: int = 0  # when the oldest outcome came that has not been applied


@dataclass(slots=True)
class Snapshot:
    """A plan's state, the steps named, a window of their dependents, what is in flight and the head of the ready queue.

    `windows` has key (step id, window number); `todo` are the first items of work left over, as such keys.
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
    knows_leases: bool = False  # whether they were asked for
    standing: StandingCommand | None = None
    grants: Mapping[str, Grant] = field(default_factory=dict)  # scope -> what is left; without it there is no limit
    notes: dict[str, bytes] = field(default_factory=dict)  # those that were asked for; b"" for one that is not there
    full: Collection[str] = ()  # queues that take no more specs for now
    paused_queues: Mapping[str, StandingCommand] = field(default_factory=dict)  # whose steps do not start
    probe: str = ""  # the token of a step of this plan that may start though its repository is paused
    short_of_memory: bool = False
    policy: Policy = BUILT_IN  # that the plan was created under
    code: str = ""  # the version of the code that decides, which the log names
    claims: FileClaims | None = None  # what plans of the repository claim, where that was asked for
