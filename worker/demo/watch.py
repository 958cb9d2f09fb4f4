"""One plan as it is followed from outside: its state, its events, and what its controllers report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from redis import Redis

from schemas import codec
from schemas.base import PlanState
from schemas.event import EVENT_PREFIX, EVENT_SUFFIX
from schemas.outcome import Outcome
from schemas.plan import PlanView
from worker.store import queries
from worker.store.keys import Partition, partition_of

ENDED = frozenset({PlanState.COMPLETED, PlanState.HALTED, PlanState.REJECTED})


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the plan, and how long after the first one it came."""

    what: str
    after_ms: int
    data: dict[str, Any]


@dataclass
class Watch:
    """What is known of the plan `plan_id`; `look` brings it up to date."""

    client: Redis
    plan_id: str
    partitions: int
    view: PlanView | None = None
    events: list[Event] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # why an answer was of no use
    holders: dict[str, str] = field(default_factory=dict)  # step -> the controller that works on it
    _last: str = "0"
    _first_ms: int = 0
    _log_lines: int = 0

    def __post_init__(self) -> None:
        self._partition = Partition(partition_of(self.plan_id, self.partitions))
        self._keys = self._partition.plan(self.plan_id)

    @property
    def told(self) -> list[Outcome]:
        """The attempts that have something to tell: an answer, or why they failed."""
        return [outcome for outcome in self.outcomes if outcome.output or not outcome.success]

    def look(self) -> PlanView | None:
        """Bring it up to date; returns the plan once it is over. Its state is read first, so that nothing is missed."""
        self.view = queries.plan(self.client, self.partitions, self.plan_id)
        self._read_events()
        self._read_log()
        self._read_leases()
        return self.view if self.view and self.view.state in ENDED else None

    def _read_events(self) -> None:
        reply: Any = self.client.xrange(self._partition.events, f"({self._last}" if self.events else "-")
        for entry, fields in reply:
            self._last = entry.decode()
            data = codec.loads(fields[b"data"])
            if data.get("plan_id") == self.plan_id:
                ms = int(self._last.partition("-")[0])
                self._first_ms = self._first_ms or ms
                what = fields[b"type"].decode().removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX)
                self.events.append(Event(what, ms - self._first_ms, data))

    def _read_log(self) -> None:
        """The plan's log keeps every outcome that was applied, with its evidence."""
        lines: Any = self.client.lrange(self._keys.log, self._log_lines, -1)
        self._log_lines += len(lines)
        for line in lines:
            said = codec.loads(line)["in"]
            self.outcomes += [Outcome.model_validate(got[3]) for got in said if got[0] == "outcome"]
            self.refused += [got[3] for got in said if got[0] == "output refused"]

    def _read_leases(self) -> None:
        prefix = self._partition.lease_prefix(self.plan_id)
        for step in self.view.steps if self.view else ():
            holder: Any = self.client.hget(prefix + step.step_id, "controller") if step.state == "ACTIVE" else None
            if holder:
                self.holders[step.step_id] = holder.decode()
            else:
                self.holders.pop(step.step_id, None)


def reason(rejected: PlanView) -> str:
    """Say in short why a goal was rejected."""
    errors = rejected.halt.evidence.get("errors", ()) if rejected.halt else ()
    return ", ".join(error["code"] for error in errors)
