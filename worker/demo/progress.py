"""The visible progress of a demo: its steps, and the followed plan."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
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
    """An event of the plan; `after_ms` is its time after the plan's first event."""

    what: str
    after_ms: int
    data: dict[str, Any]


@dataclass
class PlanWatch:
    """The observed state of the plan `plan_id`; `refresh` updates it."""

    client: Redis
    plan_id: str
    partitions: int
    view: PlanView | None = None
    events: list[Event] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # reasons for refused answers
    holders: dict[str, str] = field(default_factory=dict)  # step -> the controller that works on it
    _last: str = "0"
    _first_ms: int = 0
    _log_lines: int = 0

    def __post_init__(self) -> None:
        self._partition = Partition(partition_of(self.plan_id, self.partitions))
        self._keys = self._partition.plan(self.plan_id)

    def refresh(self) -> PlanView | None:
        """Update the state. Returns the plan if it has ended, else None.

        The state of the plan is read before its events, so that no event of an ended plan is missed.
        """
        self.view = queries.plan(self.client, self.partitions, self.plan_id)
        news: Any = self.client.xrange(self._partition.events, f"({self._last}" if self.events else "-")
        for entry, fields in news:
            self._last = entry.decode()
            data = codec.loads(fields[b"data"])
            if data.get("plan_id") == self.plan_id:
                ms = int(self._last.partition("-")[0])
                self._first_ms = self._first_ms or ms
                what = fields[b"type"].decode().removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX)
                self.events.append(Event(what, ms - self._first_ms, data))
        lines: Any = self.client.lrange(self._keys.log, self._log_lines, -1)
        self._log_lines += len(lines)
        for line in lines:  # the plan's log keeps every outcome that was applied, with its evidence
            inputs = codec.loads(line)["in"]
            self.outcomes += [Outcome.model_validate(each[3]) for each in inputs if each[0] == "outcome"]
            self.refused += [each[3] for each in inputs if each[0] == "output refused"]
        prefix = self._partition.lease_prefix(self.plan_id)
        self.holders = {}
        for step in self.view.steps if self.view else ():
            holder: Any = self.client.hget(prefix + step.step_id, "controller") if step.state == "ACTIVE" else None
            if holder:
                self.holders[step.step_id] = holder.decode()
        return self.view if self.view and self.view.state in ENDED else None


@dataclass
class StoryStep:
    """One step of the demo, with its result."""

    title: str
    result: str | None = None


@dataclass
class Progress:
    """Everything that is shown; it grows during the demo."""

    home: Path
    kind: str
    summary: str
    started: float = field(default_factory=time.monotonic)
    steps: list[StoryStep] = field(default_factory=list)
    watch: PlanWatch | None = None
    rejected: PlanView | None = None
    diff: str = ""
    tests_passed: bool = False
    pages: list[tuple[str, str]] = field(default_factory=list)  # title and text of further parts of the end

    @property
    def seconds(self) -> float:
        """Time since the start of the demo, in seconds."""
        return time.monotonic() - self.started

    @property
    def completed(self) -> PlanView | None:
        """The plan that should be completed."""
        return self.watch.view if self.watch else None

    def as_json(self) -> dict[str, Any]:
        """Return the output of `--json`."""
        return {
            "kind": self.kind,
            "completed": self.completed and self.completed.model_dump(mode="json"),
            "rejected": self.rejected and self.rejected.model_dump(mode="json"),
            "diff": self.diff,
            "tests_passed": self.tests_passed,
            "seconds": round(self.seconds, 1),
        }
