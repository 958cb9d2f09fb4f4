"""What every decision returns: the writes of one commit, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from schemas.base import Verdict
from schemas.stored import Attempt

MAX_STEP_CHANGES = 96  # of one commit; with these a commit stays below 1000 arguments
MAX_DISPATCHES = 32


class Dispatch(NamedTuple):
    """A spec on its way to a queue, with the attempt that it starts and the lease that guards it."""

    step_id: str
    attempt: Attempt
    spec: bytes


class HistoryChange(NamedTuple):
    """A change of a counter that plans of one kind and repository leave to those after them (commit.lua, section 15).

    Counters lie in the partition of the plan, which its repository chooses, so a plan's own commits write them.
    """

    name: str  # of `plan_history`
    field: str
    seen: int | str  # what it was when that was decided; "" if that does not matter
    change: int | str  # "" drops it


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
    lists: list[str] = field(default_factory=list)  # of plans: all that the plan is in now; none: those that it was in
    settles: str = ""  # the verdict of its goal, where that waited for an answer
    verdicts: list[Verdict] = field(default_factory=list)
