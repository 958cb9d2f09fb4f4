"""A plan as a worker keeps it between two decisions: decoded, and what is stored once every commit has gone through.

A decision that changed it and was not committed has spoiled it: then it is read anew from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.stored import Attempt, PlanRecord, StepStatus, decode_live
from schemas.stored_step import TEXTS, read_texts, window_of
from tasks.base.policy import BUILT_IN, Policy
from tasks.plan.changeset import MAX_STEP_CHANGES, Changeset
from tasks.plan.snapshot import NOTE, WINDOW, Snapshot, Step, Window

TODO_PAGE = 8  # items of left-over work that a decision is given, as begin.lua has it
WINDOW_MARK = ">"  # before the name of a window among the steps of a plan


class Slice(NamedTuple):
    """The part of a plan that a decision can touch: `must` are those of `names` whose spec is given in any case."""

    names: Sequence[str]
    must: frozenset[str]
    ends: int  # how many of the names may end now
    windows: Mapping[tuple[str, int], Window]
    ready: Sequence[str]


def select_slice(
    wanted: Sequence[str],
    todo: Sequence[tuple[str, int]],
    window_of: Callable[[str, int], Sequence[str] | None],
    queue: Sequence[str],
    ready: int | None,
    page: int | None = None,
) -> Slice:
    """Select what begin.lua reads for the steps and notes `wanted`.

    `queue` are the ready steps in their order, of which `ready` are read; with `page` so many beside one for each end
    that is told. Without either all are.
    """
    names = dict.fromkeys([*wanted, *(step for step, _ in todo)])
    ends = len(names)
    windows, read = {}, 0
    for step, number in (*todo, *((step, 0) for step in wanted)):
        if read >= MAX_STEP_CHANGES:
            break
        ids = window_of(step, number) or ()
        read += len(ids)
        windows[step, number] = Window(ids, len(ids) == WINDOW and window_of(step, number + 1) is not None)
        names |= dict.fromkeys(ids)
    head = queue[: ready if page is None else ends + page]
    must = frozenset((*[*names][:ends], *head))
    names |= dict.fromkeys(head)
    return Slice([*names], must, ends, windows, head)


@dataclass(slots=True, eq=False)
class HotPlan:
    """One plan whole, with all of its steps; `size` is about how many bytes of it are stored."""

    plan_id: str
    reply_to: str
    lease_prefix: str
    record: PlanRecord
    steps: dict[str, Step]
    windows: dict[tuple[str, int], list[str]]
    active: dict[str, Attempt]
    ready: dict[str, int]  # step -> its place in the plan
    todo: list[tuple[str, int]]
    size: int
    texts: Sequence[str] = ()  # that several of its steps have
    policy: Policy | None = None  # that it was made under, once that was looked up
    cards: dict[str, Any] = field(default_factory=dict)  # what plain_success.py knows of steps
    card: Any = None  # and of the plan

    @classmethod
    def load(
        cls,
        plan_id: str,
        places: tuple[str, str],
        record: PlanRecord,
        fields: Iterable[tuple[bytes, bytes]],
        statuses: Iterable[tuple[bytes, bytes]],
        active: Iterable[tuple[bytes, bytes]],
        ready: Sequence[bytes],
        todo: Sequence[bytes],
    ) -> HotPlan:
        """Decode what is stored of a plan; `places` are where its outcomes go and what its leases begin with."""
        specs: dict[str, bytes] = {}
        windows: dict[tuple[str, int], list[str]] = {}
        size = 0
        for name, value in fields:
            size += len(value)
            _put(name.decode(), value, specs, windows)
        steps, texts = {}, read_texts(specs.pop(TEXTS, None))
        for name, raw in statuses:
            step = name.decode()
            steps[step] = Step(step, specs.get(step), StepStatus.decode(raw), texts=texts)
            size += len(raw)
        return cls(
            plan_id,
            *places,
            record,
            steps,
            windows,
            {step.decode(): Attempt.decode(raw) for step, raw in active},
            {step: steps[step].status.index for step in map(bytes.decode, ready)},
            [(step, int(number)) for step, number, *_ in (item.decode().split(" ") for item in todo)],
            size,
            texts,
        )

    @property
    def queue(self) -> list[str]:
        """The ready steps in the order in which they start."""
        ready = self.ready
        return sorted(ready, key=lambda step: (ready[step], step)) if len(ready) > 1 else [*ready]

    def snapshot(self, now: int, wanted: Sequence[str], page: int) -> Snapshot:
        """Give a decision what begin.lua would; what stands around the plan is for the caller to add."""
        todo = self.todo[:TODO_PAGE]
        part = select_slice(wanted, todo, self._window, self.queue, None, page)
        steps = self.steps
        return Snapshot(
            plan_id=self.plan_id,
            now=now,
            record=self.record,
            steps={name: self._step(steps[name], part) for name in part.names if name in steps},
            windows={**part.windows},
            active={**self.active},
            ready=[*part.ready],
            ready_beyond=len(part.ready) >= part.ends + page,
            todo=todo,
            todo_beyond=len(self.todo) - len(todo),
            reply_to=self.reply_to,
            lease_prefix=self.lease_prefix,
            policy=self.policy or BUILT_IN,
        )

    def _step(self, step: Step, part: Slice) -> Step:
        if step.step_id in part.must or step.status.unmet <= part.ends:
            return step
        return Step(step.step_id, None, step.status, texts=self.texts)

    def _window(self, step: str, number: int) -> Sequence[str] | None:
        return self.windows.get((step, number))

    def take(self, change: Changeset, entries: Sequence[str]) -> None:
        """Take in a decision that was committed; `entries` are those of the specs that started, in their order.

        What was written is decoded anew, so that a next decision sees what it would read.
        """
        record = self.record
        version = change.expected + change.changed
        if live := change.fields.get("live"):
            self.record = decode_live(version, record.state, record.head, live, record.growth)
        else:
            record.version = version
        specs: dict[str, bytes] = {}
        for name, value in change.specs.items():
            self.size += len(value)
            _put(name, value, specs, self.windows)
        for step_id, raw in change.statuses.items():
            known = self.steps.get(step_id)
            spec = specs.get(step_id, known.spec if known else None)
            self.steps[step_id] = Step(step_id, spec, StepStatus.decode(raw), texts=self.texts)
            if step_id in specs:
                self.cards.pop(step_id, None)
        for step_id in change.ready_remove:
            self.ready.pop(step_id, None)
        self.ready.update(change.ready_add)
        for step_id in change.ended:
            self.active.pop(step_id, None)
        for one, entry in zip(change.dispatches, entries, strict=True):
            one.attempt.entry = entry
            self.active[one.step_id] = one.attempt
        del self.todo[: change.todo_pop]
        self.todo += change.todo_push
        self.card = None


def _put(name: str, value: bytes, specs: dict[str, bytes], windows: dict[tuple[str, int], list[str]]) -> None:
    """Put a field of a plan's steps where it belongs; a note is read by the decisions that ask for it."""
    if name.startswith(WINDOW_MARK):
        step, _, number = name[1:].rpartition(":")
        windows[step, int(number)] = value.decode().split()
    elif not name.startswith(NOTE):
        specs[name] = value
        if window := window_of(value):
            windows[name, 0] = window
