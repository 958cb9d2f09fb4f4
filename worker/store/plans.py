"""Slices of plans out of Redis, changes into it: `begin` and `commit` of DESIGN.md section 3, a round trip a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Self, TypeAlias

from redis import Redis
from redis.exceptions import ResponseError

from schemas.stored import Attempt, StepStatus, decode_plan
from tasks.change import Change
from tasks.errors import PlannerError
from tasks.view import Lease, Slice, Step, Window
from worker.store import functions
from worker.store.keys import Partition

LOCK_MS = 5000  # spares work, guards nothing: the version is the fence
EVENTS_CAP = 10_000
READY_PAGE = 4  # beside one for each end that is told, since files of some may be taken


class NoSlice(Enum):
    """Why begin gave no slice."""

    BUSY = "another worker decides about this plan"
    GONE = "there is no such plan"


class Unreadable(PlannerError):
    """What is stored of this plan cannot be read."""


Begun: TypeAlias = Slice | NoSlice | Unreadable


class Ask(NamedTuple):
    """Which part of which plan to begin with; `leases` reads the leases of the steps too, `page` so many ready ones."""

    plan_id: str
    steps: Sequence[str] = ()
    leases: bool = False
    page: int = READY_PAGE


class Write(NamedTuple):
    """A change with the entries (stream, id) that it acknowledges."""

    change: Change
    acks: Sequence[tuple[str, bytes]] = ()


class PlanStore:
    """The plans of one partition. `token` names this worker in locks."""

    def __init__(self, client: Redis, partition: Partition, token: str, retention_s: int) -> None:
        self._client = client
        self._partition = partition
        self._token = token
        self._retention_s = retention_s

    def talk(self) -> PlanTalk:
        """Open a connection for rounds of begin and commit."""
        return PlanTalk(self, self._client)

    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]:
        """Apply changes in one round trip, without a begin of their own; answers as PlanTalk.verdicts."""
        with self.talk() as talk:
            talk.commit(writes)
            return talk.verdicts()

    def begin_call(self, ask: Ask) -> tuple[Any, ...]:
        """Lay out what planner.lua's begin reads."""
        k = self._partition.plan(ask.plan_id)
        keys = [k.plan, k.steps, k.status, k.ready, k.active, k.todo]
        if ask.leases:
            prefix = self._partition.lease_prefix(ask.plan_id)
            keys.extend(prefix + step for step in ask.steps)
        return ("FCALL", functions.BEGIN, len(keys), *keys, self._token, LOCK_MS, ask.page, *ask.steps)

    def slice_of(self, ask: Ask, reply: Any) -> Begun:
        """Read what begin returned. A plan that cannot be read does not keep others from their turn."""
        if isinstance(reply, Exception):
            return Unreadable(str(reply))
        if reply[1] != b"ok":
            return NoSlice[reply[1].decode().upper()]
        try:
            return self._slice(ask, reply)
        except (ValueError, TypeError, KeyError) as error:
            return Unreadable(f"{type(error).__name__}: {error}")

    def _slice(self, ask: Ask, reply: Any) -> Slice:
        now, _, hot, names, specs, records, windows, flying, queue, page, items, todo_length, leases = reply
        return Slice(
            plan_id=ask.plan_id,
            now=now,
            record=decode_plan(hot),
            steps={
                (step := name.decode()): Step(step, spec, StepStatus.decode(record))
                for name, spec, record in zip(names, specs, records, strict=True)
                if record
            },
            windows={
                (step.decode(), number): Window(ids.decode().split(), bool(more))
                for step, number, ids, more in _each(windows, 4)
            },
            active={step.decode(): Attempt.decode(record) for step, record in _each(flying, 2)},
            ready=[step.decode() for step in queue],
            ready_beyond=len(queue) >= page,
            todo=[_todo(item) for item in items],
            todo_beyond=todo_length - len(items),
            reply_to=self._partition.outcomes,
            lease_prefix=self._partition.lease_prefix(ask.plan_id),
            leases={
                step: Lease(*(int(value or 0) for value in lease))
                for step, lease in zip(ask.steps, leases, strict=False)
                if lease[0]
            },
        )

    def commit_call(self, write: Write) -> tuple[Any, ...]:
        """Lay out a change as planner.lua's commit reads it: KEYS, then counts, then SECTIONS in their order."""
        change, partition = write.change, self._partition
        k = partition.plan(change.plan_id)
        keys = [k.plan, k.steps, k.status, k.ready, k.active, k.todo, k.log]
        keys += (partition.timers, partition.events, partition.plans)
        place = _Places(keys)
        lease = partition.lease_prefix(change.plan_id)
        items: list[Any] = []
        for pairs in (change.fields, change.statuses, change.specs):
            for pair in pairs.items():
                items += pair
        for step, index in change.ready_add.items():
            items += (index, step)
        items += change.ready_remove
        for step, attempt in change.ended.items():
            queue = place(partition.steps(attempt.queue))
            items += (step, queue, attempt.entry, place(lease + step), int(step in change.cancelled))
        for one in change.dispatches:
            a = one.attempt
            items += (one.step_id, place(partition.steps(a.queue)), place(lease + one.step_id))
            items += (one.spec, a.attempt, a.lease, a.tokens, a.encode())
        if change.todo_pop:
            items.append(change.todo_pop)
        items += [f"{step} {number}" for step, number in change.todo_push]
        for event in change.events:
            items += event
        for stream, entry in write.acks:
            items += (place(stream), entry)
        for step, renewed in change.guards.items():
            items += (place(lease + step), renewed)
        return (
            "FCALL",
            functions.COMMIT,
            len(keys),
            *keys,
            change.plan_id,
            change.expected,
            self._token,
            int(change.changed),
            change.now,
            self._retention_s if change.ends else 0,
            EVENTS_CAP,
            change.log,
            "" if change.wake is None else change.wake,
            len(change.fields),
            len(change.statuses),
            len(change.specs),
            len(change.ready_add),
            len(change.ready_remove),
            len(change.ended),
            len(change.dispatches),
            1 if change.todo_pop else 0,
            len(change.todo_push),
            len(change.events),
            len(write.acks),
            len(change.guards),
            *items,
        )


class PlanTalk:
    """Begins and commits on one connection: while the server reads later slices, earlier plans are decided.

    All that was begun has to be answered by `slices`, in order; then `verdicts` reads what became of the commits.
    """

    def __init__(self, store: PlanStore, client: Redis) -> None:
        self._store = store
        self._talk = functions.Talk(client)
        self._writes = self._beside = 0

    def __enter__(self) -> Self:
        self._talk.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._talk.__exit__(*failure)

    def begin(self, asks: Sequence[Ask]) -> None:
        """Lock each plan and have what its decision can touch read."""
        self._talk.send([self._store.begin_call(ask) for ask in asks])

    def slices(self, asks: Sequence[Ask]) -> list[Begun]:
        """Read the slices of the next `asks` that were begun."""
        replies = self._talk.receive(len(asks))
        return [self._store.slice_of(ask, reply) for ask, reply in zip(asks, replies, strict=True)]

    def commit(self, writes: Sequence[Write]) -> None:
        """Apply each change whose plan is still at its version."""
        self._talk.send([self._store.commit_call(write) for write in writes])
        self._writes += len(writes)

    def beside(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Send commands behind the changes, in the same round trip."""
        self._talk.send(commands)
        self._beside += len(commands)

    def verdicts(self) -> list[str | ResponseError]:
        """Tell what became of each commit: `ok`, `stale`, `gone` or the refusal; raises the first error of `beside`."""
        replies = self._talk.receive(self._writes + self._beside)
        for reply in replies[self._writes :]:
            if isinstance(reply, Exception):
                raise reply
        return [reply if isinstance(reply, ResponseError) else reply.decode() for reply in replies[: self._writes]]


class _Places:
    """Hands out places in KEYS, each key once."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = keys
        self._known: dict[str, int] = {}

    def __call__(self, key: str) -> int:
        place = self._known.get(key)
        if place is None:
            self._keys.append(key)
            place = self._known[key] = len(self._keys)
        return place


def _each(flat: list[Any], size: int) -> Iterable[tuple[Any, ...]]:
    return zip(*[iter(flat)] * size, strict=True)


def _todo(item: bytes) -> tuple[str, int]:
    step, _, number = item.decode().partition(" ")
    return step, int(number)
