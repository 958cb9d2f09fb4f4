"""Snapshots of plans out of Redis, changesets into it, a round trip a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, count
from operator import floordiv
from typing import Any, NamedTuple, Self, TypeAlias

from redis import Redis
from redis.exceptions import ResponseError

from schemas.stored import Attempt, StepStatus, decode_plan
from tasks.base.errors import PlannerError
from tasks.handlers.bulk_commands import Records, find_paused_queues, find_standing
from tasks.plan.changeset import Changeset
from tasks.plan.snapshot import NOTE, Grant, Lease, Snapshot, Step, Window
from worker.host.code_version import CODE_VERSION
from worker.store import functions
from worker.store.commits import Commits
from worker.store.keys import Partition, list_name

LOCK_MS = 5000  # spares work, guards nothing: the version is the fence
EVENTS_CAP = 200_000  # of a partition; event_keeper.py cuts by age and bytes
MAX_QUEUE = 10_000  # specs; more stay in their plans until a place is free
SECTION_SIZES = (2, 2, 2, 2, 1, 5, 8, 1, 1, 2, 2, 2, 2, 3, 4, 1)  # as SECTIONS in commit.lua
READY_PAGE = 4  # beside one for each end that is told, since files of some may be taken


class NoSnapshot(Enum):
    """Why begin gave no snapshot."""

    BUSY = "another worker decides about this plan"
    GONE = "there is no such plan"


class UnreadablePlan(PlannerError):
    """What is stored of this plan cannot be read."""


class Reconnected(PlannerError):
    """The connection is another one than when the server's commits were compared.

    They are compared with what is known here.
    """


class RolledBack(PlannerError):
    """The server has lost commits that this worker knows of."""


Begun: TypeAlias = Snapshot | NoSnapshot | UnreadablePlan


class Ask(NamedTuple):
    """Which part of which plan to begin with.

    `steps` are steps and, with NOTE before their names, notes; each once. `leases` reads the leases of the steps too,
    `page` so many ready ones.
    """

    plan_id: str
    steps: Sequence[str] = ()
    leases: bool = False
    page: int = READY_PAGE


class Write(NamedTuple):
    """A changeset with the entries (stream, id) that it acknowledges."""

    changeset: Changeset
    acks: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class PlanStore:
    """The plans of one partition.

    `token` names this worker in locks; a queue takes `max_queue` specs.
    """

    client: Redis
    partition: Partition
    token: str
    retention_s: int
    commits: Commits
    max_queue: int = MAX_QUEUE

    def talk(self) -> PlanTalk:
        """Open a connection for rounds of begin and commit.

        Entering it raises Reconnected where it is a new one.
        """
        return PlanTalk(self)

    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]:
        """Apply changesets in one round trip, without a begin of their own; answers as PlanTalk.verdicts."""
        with self.talk() as talk:
            talk.commit(writes)
            return talk.verdicts()

    def commit_call(self, write: Write, commands_heard: int | str = "") -> tuple[Any, ...]:
        """Lay out a changeset as commit.lua reads it.

        KEYS come first, then counts, then SECTIONS in their order. `commands_heard` is how many standing commands the
        partition had heard of when it was decided, if that matters.
        """
        changeset, partition = write.changeset, self.partition
        keys = [*partition.plan(changeset.plan_id), partition.timers, partition.events, partition.plans]
        keys += (partition.grants, partition.commits, partition.tenants, partition.scopes)
        place: dict[str, int] = defaultdict(count(len(keys) + 1).__next__)  # in KEYS, given when a key is first named
        lease = partition.lease_prefix(changeset.plan_id)
        ended: list[Any] = []
        for step, attempt in changeset.ended.items():
            queue = place[partition.steps(attempt.queue)]
            ended += (step, queue, attempt.entry, place[lease + step], int(step in changeset.cancelled))
        started: list[Any] = []
        for step, attempt, spec in changeset.dispatches:
            started += (step, place[partition.steps(attempt.queue)], place[lease + step], spec)
            started += (attempt.attempt, attempt.lease, attempt.tokens, attempt.encode())
        # What few outcomes have is looked at first: going through nothing would cost every other one.
        sections: tuple[Sequence[Any], ...] = (
            _flat(changeset.fields.items()),
            _flat(changeset.statuses.items()),
            _flat(changeset.specs.items()),
            _flat(changeset.ready_add and [(index, step) for step, index in changeset.ready_add.items()]),
            changeset.ready_remove,
            ended,
            started,
            (changeset.todo_pop,) if changeset.todo_pop else (),
            changeset.todo_push and [f"{step} {number}" for step, number in changeset.todo_push],
            _flat(changeset.events),
            _flat([(place[stream], entry) for stream, entry in write.acks]),
            _flat(changeset.guards and [(place[lease + step], seen) for step, seen in changeset.guards.items()]),
            _flat(changeset.actions and [(place[lease + step], action) for step, action in changeset.actions.items()]),
            _flat(
                changeset.taken and [(s, used, changeset.rests_on.get(s, "")) for s, used in changeset.taken.items()]
            ),
            _flat(
                changeset.history
                and [(place[partition.recall(one.name)], one.field, one.seen, one.change) for one in changeset.history]
            ),
            changeset.lists and [list_name(name) for name in changeset.lists],
        )
        return (
            "FCALL",
            functions.COMMIT,
            len(keys) + len(place),
            *keys,
            *place,
            changeset.plan_id,
            changeset.expected,
            self.token,
            int(changeset.changed),
            changeset.now,
            self.retention_s if changeset.ends else 0,
            EVENTS_CAP,
            changeset.log,
            "" if changeset.wake is None else changeset.wake,
            self.commits.field,
            self.commits.known,
            self.max_queue,
            changeset.tenant,
            commands_heard,
            *map(floordiv, map(len, sections), SECTION_SIZES),
            *chain.from_iterable(sections),
        )


class PlanTalk(functions.Talk):
    """Begins and commits on one connection.

    While the server reads later snapshots, earlier plans are decided. All that was begun has to be answered by
    `snapshots`, in order; then `verdicts` reads what became of the commits.
    """

    def __init__(self, store: PlanStore) -> None:
        super().__init__(store.client)
        self._store = store
        self._scopes: Records | None = None
        self._commands_heard: int | str = ""  # that the partition had heard of when `_scopes` was read
        self._plans: list[str] = []  # whose changesets were sent
        self._beside = 0

    def __enter__(self) -> Self:
        super().__enter__()
        if not self._store.commits.is_compared:
            self.__exit__(None)
            raise Reconnected
        return self

    def begin(self, asks: Sequence[Ask]) -> None:
        """Lock each plan and have what its decision can touch read."""
        if not asks:
            return
        partition = self._store.partition
        calls: list[tuple[Any, ...]] = [("HGETALL", partition.scopes)]  # few or none, and read once a batch
        for ask in asks:
            k = partition.plan(ask.plan_id)
            keys = [k.plan, k.steps, k.status, k.ready, k.active, k.todo, partition.grants]
            if ask.leases:
                prefix = partition.lease_prefix(ask.plan_id)
                keys += [prefix + step for step in ask.steps]
            calls.append(("FCALL", functions.BEGIN, len(keys), *keys, self._store.token, LOCK_MS, ask.page, *ask.steps))
        self.send(calls)

    def snapshots(self, asks: Sequence[Ask]) -> list[Begun]:
        """Read the snapshots of the next `asks` that were begun.

        A plan that cannot be read does not keep others from their turn.
        """
        if self._scopes is None:
            (found,) = self.receive(1)
            records = dict(_each(found, 2))
            self._commands_heard = int(records.pop(b"orders", 0))
            self._scopes = records
        begun: list[Begun] = []
        for ask, reply in zip(asks, self.receive(len(asks)), strict=True):
            if isinstance(reply, Exception):
                begun.append(UnreadablePlan(str(reply)))
            elif reply[1] != b"ok":
                begun.append(NoSnapshot[reply[1].decode().upper()])
            else:
                try:
                    begun.append(_snapshot(self._store.partition, ask, reply, self._scopes))
                except (ValueError, TypeError, KeyError) as error:
                    begun.append(UnreadablePlan(f"{type(error).__name__}: {error}"))
        return begun

    def commit(self, writes: Sequence[Write]) -> None:
        """Apply each changeset whose plan is still at its version.

        The standing commands must be those that were read, too.
        """
        self.send([self._store.commit_call(write, self._commands_heard) for write in writes])
        self._plans += [write.changeset.plan_id for write in writes]

    def beside(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Send commands to the server behind the changesets, in the same round trip."""
        self.send(commands)
        self._beside += len(commands)

    def verdicts(self) -> list[str | ResponseError]:
        """Tell what became of each commit; raises the first error of `beside`.

        That is `ok`, why nothing was written, or the error. Raises RolledBack where the server's data are older than
        this worker knows them.
        """
        replies = self.receive(len(self._plans) + self._beside)
        verdicts: list[str | ResponseError] = []
        for plan_id, reply in zip(self._plans, replies, strict=False):
            if isinstance(reply, int):
                self._store.commits.note(plan_id, reply)
                verdicts.append("ok")
            else:
                verdicts.append(reply if isinstance(reply, ResponseError) else str(reply.decode()))
        if "rolled back" in verdicts:
            raise RolledBack
        for reply in replies[len(self._plans) :]:
            if isinstance(reply, Exception):
                raise reply
        return verdicts


def _snapshot(partition: Partition, ask: Ask, reply: Any, scopes: Records) -> Snapshot:
    now, _, hot, names, specs, records, windows, flying, queue, page, items, todo_length, leases, grants = reply
    record = decode_plan(hot)
    return Snapshot(
        plan_id=ask.plan_id,
        now=now,
        record=record,
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
        notes={}
        if all(records)  # a note has none
        else {step[1:]: spec or b"" for step, spec in zip(ask.steps, specs, strict=False) if step[0] == NOTE},
        ready=[step.decode() for step in queue],
        ready_beyond=len(queue) >= page,
        todo=[(step, int(number)) for step, number, *_ in (item.decode().split(" ") for item in items)],
        todo_beyond=todo_length - len(items),
        reply_to=partition.outcomes,
        lease_prefix=partition.lease_prefix(ask.plan_id),
        leases={
            step: Lease(attempt, claimed, renewed, controller.decode(errors="replace"), ttl)
            for step, (attempt, claimed, renewed, controller, ttl) in zip(ask.steps, leases, strict=False)
            if attempt
        }
        if leases
        else {},
        standing=find_standing(scopes, record.head.tenant, record.head.repo, record.times["created"], now),
        paused_queues=find_paused_queues(scopes, now) if scopes else {},
        grants={scope.decode(): Grant(left, over == b"1") for scope, left, over in _each(grants, 3)} if grants else {},
        code=CODE_VERSION,
    )


def full_queue(verdict: str | ResponseError) -> str | None:
    """Name the queue that had no room for the steps of a commit."""
    full = isinstance(verdict, str) and verdict.startswith("full ")
    return str(verdict).rpartition("steps:")[2] if full else None


def _each(flat: Sequence[Any], size: int) -> Iterable[tuple[Any, ...]]:
    return zip(*[iter(flat)] * size, strict=True)


def _flat(rows: Collection[Iterable[Any]]) -> Sequence[Any]:
    return list(chain.from_iterable(rows)) if rows else ()
