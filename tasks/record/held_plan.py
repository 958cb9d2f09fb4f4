"""A plan in memory that can be read and written like a plan in Redis (begin.lua, commit.lua)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.stored import HOT, Attempt, PlanRecord, StepStatus, decode_plan
from schemas.stored.step import TEXTS, read_texts, unpack_step, window_of
from tasks.base.policy import BUILT_IN, Policy
from tasks.plan.changeset import Changeset
from tasks.plan.hot_plan import TODO_PAGE, Slice, select_slice
from tasks.plan.snapshot import NOTE, Lease, Snapshot, Step

NO_ENTRY = b"0-0"


@dataclass(slots=True)
class HeldPlan:
    """The stored parts of one plan, each with the content of its Redis key."""

    plan_id: str
    reply_to: str
    lease_prefix: str
    fields: dict[str, bytes] = field(default_factory=dict)
    steps: dict[str, bytes] = field(default_factory=dict)
    status: dict[str, bytes] = field(default_factory=dict)
    ready: dict[str, int] = field(default_factory=dict)
    active: dict[str, bytes] = field(default_factory=dict)
    todo: list[bytes] = field(default_factory=list)
    log: list[bytes] = field(default_factory=list)
    policy: Policy = BUILT_IN  # for its decisions

    @property
    def version(self) -> int:
        """The number of commits so far."""
        return int(self.fields.get("version", 0))

    @property
    def record(self) -> PlanRecord:
        """The plan's own state, decoded at each access."""
        return decode_plan([self.fields.get(name) for name in HOT])

    def spec_of(self, step: str) -> dict[str, Any] | None:
        """Return all fields of the static part of `step`; None if there is no such step."""
        spec = self.steps.get(step)
        return unpack_step(spec, read_texts(self.steps.get(TEXTS))) if spec else None

    def dependents(self, step: str) -> list[str]:
        """Return the steps that wait for `step`."""
        found, number = list[str](), 0
        while window := self.window(step, number):
            found += window
            number += 1
        return found

    def snapshot(
        self,
        now: int,
        wanted: Sequence[str] = (),
        page: int | None = None,
        leases: Mapping[str, Lease] | None = None,
        ready: int | None = None,
    ) -> Snapshot:
        """Return a copy of the data that a decision about the steps and notes `wanted` can touch.

        `page` is the number of ready steps to read in addition to one for each step that may end. `ready` is the number
        of ready steps to read in all. Without both all are read. The caller adds the state around the plan, such as
        budgets.
        """
        todo = [_todo(item) for item in self.todo[:TODO_PAGE]]
        queue = sorted(self.ready, key=lambda step: (self.ready[step], step))
        part = select_slice(wanted, todo, self.window, queue, ready, page)
        return Snapshot(
            plan_id=self.plan_id,
            now=now,
            record=self.record,
            steps=self._steps(part),
            windows={**part.windows},
            notes={name[1:]: self.steps.get(name, b"") for name in wanted if name[0] == NOTE},
            active={step: Attempt.decode(raw) for step, raw in self.active.items()},
            ready=[*part.ready],
            ready_beyond=ready is not None or (page is not None and len(part.ready) >= part.ends + page),
            todo=todo,
            todo_beyond=len(self.todo) - len(todo),
            reply_to=self.reply_to,
            lease_prefix=self.lease_prefix,
            leases=dict(leases or {}),
            policy=self.policy,
        )

    def window(self, step: str, number: int = 0) -> Sequence[str] | None:
        """Return one page of the step's dependents, the first page for `number` 0; None if there is no such page."""
        if number:
            beside = self.steps.get(f">{step}:{number}")
            return beside.decode().split() if beside else None
        spec = None if step[0] == NOTE else self.steps.get(step)
        return window_of(spec) if spec else None

    def _steps(self, part: Slice) -> dict[str, Step]:
        statuses = {name: StepStatus.decode(self.status[name]) for name in part.names if name in self.status}
        texts = read_texts(self.steps.get(TEXTS))
        known = {name for name, status in statuses.items() if name in part.must or status.unmet <= part.ends}
        return {
            name: Step(name, self.steps.get(name) if name in known else None, status, texts=texts)
            for name, status in statuses.items()
        }

    def commit(self, change: Changeset, entries: Sequence[bytes] = ()) -> None:
        """Write a changeset; `entries` are the stream ids of the step specs that it sends, in their order."""
        if change.changed:
            self.fields["version"] = b"%d" % (change.expected + 1)
        self.fields.update(change.fields)
        self.status.update(change.statuses)
        self.steps.update(change.specs)
        for step in change.ready_remove:
            self.ready.pop(step, None)
        self.ready.update(change.ready_add)
        for step in change.ended:
            self.active.pop(step, None)
        for number, one in enumerate(change.dispatches):
            entry = entries[number] if entries else NO_ENTRY
            self.active[one.step_id] = entry + b" " + one.attempt.encode()
        del self.todo[: change.todo_pop]
        self.todo.extend([b"%s %d" % (step.encode(), number) for step, number in change.todo_push])
        self.log.extend([change.log] if change.log else ())


def _todo(item: bytes) -> tuple[str, int]:
    step, _, number = item.decode().partition(" ")
    return step, int(number)
