"""A plan held in memory: what begin.lua reads of it, and what commit.lua does to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.stored import HOT, Attempt, PlanRecord, StepStatus, decode_plan
from tasks.base.policy import BUILT_IN, Policy
from tasks.plan.changeset import MAX_STEP_CHANGES, Changeset
from tasks.plan.snapshot import NOTE, WINDOW, Lease, Snapshot, Step, Window

TODO_PAGE = 8  # as begin.lua has it
NO_ENTRY = b"0-0"


@dataclass(slots=True)
class HeldPlan:
    """What is stored of one plan, each part as its key in Redis has it."""

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
    policy: Policy = BUILT_IN  # that it is decided under

    @property
    def version(self) -> int:
        """The number of commits so far."""
        return int(self.fields.get("version", 0))

    @property
    def record(self) -> PlanRecord:
        """The plan's own state, decoded anew."""
        return decode_plan([self.fields.get(name) for name in HOT])

    def dependents(self, step: str) -> list[str]:
        """List the steps that wait for `step`."""
        found, number = list[str](), 0
        while window := self.steps.get(f">{step}:{number}"):
            found += window.decode().split()
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
        """Read what a decision about the steps and notes `wanted` can touch, which no change of it leads back here.

        `page` is how many ready steps are read beside one for each end that is told, `ready` how many in all; without
        either all are. What stands around the plan is for the caller to add.
        """
        todo = [_todo(item) for item in self.todo[:TODO_PAGE]]
        names = dict.fromkeys([*wanted, *(step for step, _ in todo)])
        ends = len(names)
        windows = self._windows([*todo, *((step, 0) for step in wanted)])
        names |= dict.fromkeys(name for window in windows.values() for name in window.dependents)
        queue = sorted(self.ready, key=lambda step: (self.ready[step], step))
        read = queue[: ready if page is None else ends + page]
        must = {*list(names)[:ends], *read}
        return Snapshot(
            plan_id=self.plan_id,
            now=now,
            record=self.record,
            steps=self._steps([*names, *(step for step in read if step not in names)], must, ends),
            windows=windows,
            notes={name[1:]: self.steps.get(name, b"") for name in wanted if name[0] == NOTE},
            active={step: Attempt.decode(raw) for step, raw in self.active.items()},
            ready=read,
            ready_beyond=ready is not None or (page is not None and len(read) >= ends + page),
            todo=todo,
            todo_beyond=len(self.todo) - len(todo),
            reply_to=self.reply_to,
            lease_prefix=self.lease_prefix,
            leases=dict(leases or {}),
            policy=self.policy,
        )

    def _windows(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Window]:
        windows, read = {}, 0
        for step, number in wanted:
            if read >= MAX_STEP_CHANGES:
                break
            ids = self.steps.get(f">{step}:{number}", b"").decode().split()
            read += len(ids)
            more = len(ids) == WINDOW and f">{step}:{number + 1}" in self.steps
            windows[step, number] = Window(ids, more)
        return windows

    def _steps(self, names: Sequence[str], must: Collection[str], ends: int) -> dict[str, Step]:
        statuses = {name: StepStatus.decode(self.status[name]) for name in names if name in self.status}
        return {
            name: Step(name, self.steps.get(name) if name in must or status.unmet <= ends else None, status)
            for name, status in statuses.items()
        }

    def commit(self, change: Changeset, entries: Sequence[bytes] = ()) -> None:
        """Write a changeset; `entries` are those of the specs that it starts, in their order."""
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
