"""A worker's copy of a plan between two decisions: decoded, and equal to the stored plan after every commit.

If a decision changed the copy but was not committed, the worker reads the plan from the store again. Of a large plan
the worker keeps only the part that the next outcomes can touch: see `covers`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas.stored import Attempt, PlanRecord, StepStatus, decode_live
from schemas.stored.step import TEXTS, read_texts, window_of
from tasks.base.policy import BUILT_IN, Policy
from tasks.plan.changeset import MAX_STEP_CHANGES, Changeset
from tasks.plan.snapshot import NOTE, READY_PAGE, WINDOW, Snapshot, Step, Window

TODO_PAGE = 8  # items of left-over work that a decision is given, as begin.lua has it
WINDOW_MARK = ">"  # before the name of a window among the steps of a plan
FIRST_AHEAD = 8  # steps that are read ahead of a large plan at first: its next outcome may be far away
MOST_AHEAD = 64  # and in the end, with AHEAD_EACH for each attempt in flight
AHEAD_EACH = 8


class Slice(NamedTuple):
    """The part of a plan that a decision can touch; the specs of the steps in `must` are always included."""

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
    """Return the part of a plan that begin.lua would read for the `wanted` steps and notes.

    `queue` contains the ready steps in their order; `ready` is how many of them to read. With `page` that number is
    `page` plus one for each step that may end. Without `ready` and `page`, all ready steps are read.
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
    """A whole plan, or the loaded part of a large one: its record, its attempts in flight, and some of its steps.

    `size` is the approximate number of stored bytes. If only a part is loaded, each of its steps has its spec.
    """

    plan_id: str
    reply_to: str
    lease_prefix: str
    record: PlanRecord
    steps: dict[str, Step]
    windows: dict[tuple[str, int], list[str]]
    active: dict[str, Attempt]
    ready: dict[str, int]  # step -> its place in the plan, in the order of starts
    todo: list[tuple[str, int]]
    size: int
    ahead: int = 0  # steps read ahead of those in flight; 0: the plan is whole
    horizon: tuple[int, str] | None = None  # place and name of the last ready step that was read, if there are more
    texts: Sequence[str] = ()  # texts that several of its steps share
    policy: Policy | None = None  # of the plan's creation, once it was looked up
    card: Any = None  # see tasks/policy/plain_success.py

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
        *,
        ahead: int = 0,
        more_ready: bool = False,
    ) -> HotPlan:
        """Decode the stored plan; `places` are the stream for its outcomes and the prefix of its lease keys.

        With `ahead`, the arguments are only a part of the plan. Then `more_ready` states whether the store may have
        more ready steps than `ready`.
        """
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
        queue = {step: steps[step].status.index for step in map(bytes.decode, ready)}
        return cls(
            plan_id,
            *places,
            record,
            steps,
            windows,
            {step.decode(): Attempt.decode(raw) for step, raw in active},
            queue,
            [(step, int(number)) for step, number, *_ in (item.decode().split(" ") for item in todo)],
            size,
            ahead,
            max((place, step) for step, place in queue.items()) if more_ready else None,
            texts=texts,
        )

    def window(self, step_id: str, number: int = 0) -> Sequence[str] | None:
        """Return one page of the step's dependents; None if this page does not exist or was not read."""
        return self.windows.get((step_id, number))

    def reaches(self, step_id: str) -> bool:
        """Return whether this step and all steps that its end can touch are loaded."""
        window, steps = self.window(step_id), self.steps
        return (
            window is not None and len(window) < WINDOW and step_id in steps and all(name in steps for name in window)
        )

    def covers(self, named: Collection[str], page: int) -> bool:
        """Return whether the loaded part of the plan has all that a decision about the `named` steps can touch.

        `page` is the number of ready steps to read, beyond one for each step that may end.
        """
        if not self.ahead:
            return True
        if self.todo or (self.horizon and len(self.ready) < len(named) + page):
            return False
        return all(map(self.reaches, named))

    def runs_short(self, starts: Iterable[str], leaving: int = 0) -> bool:
        """Return whether steps are missing that the ends of the steps `starts`, or of attempts in flight, can touch.

        `leaving` is the number of ready steps that are still to be removed.
        """
        if self.horizon and len(self.ready) - leaving < len(self.active) + READY_PAGE:
            return True
        return not all(map(self.reaches, starts))

    @property
    def next_ahead(self) -> int:
        """Return the number of steps to read ahead for the next part: twice the last number, up to a bound."""
        return min(2 * self.ahead, MOST_AHEAD + AHEAD_EACH * len(self.active))

    def enqueue(self, added: Mapping[str, int]) -> None:
        """Add steps to the loaded ready queue, in the order of the plan.

        If only the beginning of the queue is loaded, steps that come after this beginning are left out.
        """
        if horizon := self.horizon:
            added = {step: place for step, place in added.items() if (place, step) <= horizon}
        if added:
            ready = {**self.ready, **added}
            self.ready = {step: ready[step] for step in sorted(ready, key=lambda step: (ready[step], step))}

    def snapshot(self, now: int, wanted: Sequence[str], page: int) -> Snapshot:
        """Return the snapshot that begin.lua would return; the caller adds notes, leases, grants and commands."""
        todo = self.todo[:TODO_PAGE]
        part = select_slice(wanted, todo, self.window, [*self.ready], None, page)
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

    def take(self, change: Changeset, entries: Sequence[str]) -> None:
        """Apply a committed decision; `entries` are the stream ids of the started specs, in their order.

        The written values are decoded again, so that the next decision sees the stored plan.
        """
        record = self.record
        version = change.expected + change.changed
        if live := change.fields.get("live"):
            self.record = decode_live(version, record.state, record.head, live, record.strategy_state)
        else:
            record.version = version
        specs: dict[str, bytes] = {}
        for name, value in change.specs.items():
            self.size += len(value)
            _put(name, value, specs, self.windows)
        if texts := specs.pop(TEXTS, None):  # of a plan that had no steps before
            self.texts = read_texts(texts)
        for step_id, raw in change.statuses.items():
            known = self.steps.get(step_id)
            spec = specs.get(step_id, known.spec if known else None)
            card = known.card if known and step_id not in specs else None
            self.steps[step_id] = Step(step_id, spec, StepStatus.decode(raw), texts=self.texts, card=card)
        for step_id in change.ready_remove:
            self.ready.pop(step_id, None)
        self.enqueue(change.ready_add)
        for step_id in change.ended:
            self.active.pop(step_id, None)
        for one, entry in zip(change.dispatches, entries, strict=True):
            one.attempt.entry = entry
            self.active[one.step_id] = one.attempt
        del self.todo[: change.todo_pop]
        self.todo += change.todo_push
        self.card = None


def _put(name: str, value: bytes, specs: dict[str, bytes], windows: dict[tuple[str, int], list[str]]) -> None:
    """Store a field of a plan's steps in `specs` or `windows`; skip notes, which few decisions ask for."""
    if name.startswith(WINDOW_MARK):
        step, _, number = name[1:].rpartition(":")
        windows[step, int(number)] = value.decode().split()
    elif not name.startswith(NOTE):
        specs[name] = value
        if name != TEXTS:
            windows[name, 0] = window_of(value)
