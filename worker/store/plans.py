"""Snapshots of plans out of Redis, changesets into it, a round trip a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Self, TypeAlias

from redis import Redis
from redis.exceptions import ResponseError

from schemas.stored import Attempt, StepStatus, decode_plan
from tasks.base.errors import PlannerError
from tasks.handlers.bulk_commands import Records, find_standing
from tasks.plan.snapshot import NOTE, Grant, Lease, Snapshot, Step, Window
from worker.store import functions
from worker.store.commits import Commits
from worker.store.keys import Partition
from worker.store.layout import MAX_QUEUE, Layout, Write

LOCK_MS = 5000  # spares work, guards nothing: the version is the fence
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


class PlanStore:
    """The plans of one partition.

    `token` names this worker in locks; a queue takes `max_queue` specs.
    """

    def __init__(
        self,
        client: Redis,
        partition: Partition,
        token: str,
        retention_s: int,
        commits: Commits,
        max_queue: int = MAX_QUEUE,
    ) -> None:
        self._client = client
        self._partition = partition
        self._token = token
        self._commits = commits
        self._layout = Layout(partition, token, retention_s, commits, max_queue)

    @property
    def is_compared(self) -> bool:
        """Whether this connection's server has been asked whether it lost commits."""
        return self._commits.is_compared

    def talk(self) -> PlanTalk:
        """Open a connection for rounds of begin and commit.

        Entering it raises Reconnected where it is a new one.
        """
        return PlanTalk(self, self._client)

    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]:
        """Apply changesets in one round trip, without a begin of their own; answers as PlanTalk.verdicts."""
        with self.talk() as talk:
            talk.commit(writes)
            return talk.verdicts()

    def begin_call(self, ask: Ask) -> tuple[Any, ...]:
        """Lay out what begin.lua reads."""
        k = self._partition.plan(ask.plan_id)
        keys = [k.plan, k.steps, k.status, k.ready, k.active, k.todo, self._partition.grants]
        if ask.leases:
            prefix = self._partition.lease_prefix(ask.plan_id)
            keys.extend(prefix + step for step in ask.steps)
        return ("FCALL", functions.BEGIN, len(keys), *keys, self._token, LOCK_MS, ask.page, *ask.steps)

    def scopes_call(self) -> tuple[Any, ...]:
        """Lay out the reading of the standing commands.

        These are few or none, and read once a batch.
        """
        return ("HGETALL", self._partition.scopes)

    def snapshot_of(self, ask: Ask, reply: Any, scopes: Records) -> Begun:
        """Read what begin returned.

        A plan that cannot be read does not keep others from their turn.
        """
        if isinstance(reply, Exception):
            return UnreadablePlan(str(reply))
        if reply[1] != b"ok":
            return NoSnapshot[reply[1].decode().upper()]
        try:
            return self._snapshot(ask, reply, scopes)
        except (ValueError, TypeError, KeyError) as error:
            return UnreadablePlan(f"{type(error).__name__}: {error}")

    def _snapshot(self, ask: Ask, reply: Any, scopes: Records) -> Snapshot:
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
            notes={step[1:]: spec or b"" for step, spec in zip(ask.steps, specs, strict=False) if step[0] == NOTE},
            ready=[step.decode() for step in queue],
            ready_beyond=len(queue) >= page,
            todo=[_todo(item) for item in items],
            todo_beyond=todo_length - len(items),
            reply_to=self._partition.outcomes,
            lease_prefix=self._partition.lease_prefix(ask.plan_id),
            leases={step: Lease(*lease) for step, lease in zip(ask.steps, leases, strict=False) if lease[0]}
            if leases
            else {},
            order=find_standing(scopes, record.head.tenant, record.head.repo, record.times["created"], now),
            grants={scope.decode(): Grant(left, over == b"1") for scope, left, over in _each(grants, 3)}
            if grants
            else {},
        )

    def commit_call(self, write: Write, commands_heard: int | str = "") -> tuple[Any, ...]:
        """Lay out a changeset as commit.lua reads it."""
        return self._layout.commit_call(write, commands_heard)

    def verdict(self, plan_id: str, reply: Any) -> str | ResponseError:
        """Read what commit returned, and keep the number of one that was made."""
        if isinstance(reply, int):
            self._commits.note(plan_id, reply)
            return "ok"
        return reply if isinstance(reply, ResponseError) else str(reply.decode())


class PlanTalk:
    """Begins and commits on one connection.

    While the server reads later snapshots, earlier plans are decided. All that was begun has to be answered by
    `snapshots`, in order; then `verdicts` reads what became of the commits.
    """

    def __init__(self, store: PlanStore, client: Redis) -> None:
        self._store = store
        self._talk = functions.Talk(client)
        self._scopes: Records | None = None
        self._commands_heard: int | str = ""  # that the partition had heard of when `_scopes` was read
        self._plans: list[str] = []  # whose changesets were sent
        self._beside = 0

    def __enter__(self) -> Self:
        self._talk.__enter__()
        if not self._store.is_compared:
            self._talk.__exit__(None)
            raise Reconnected
        return self

    def __exit__(self, *failure: Any) -> None:
        self._talk.__exit__(*failure)

    def begin(self, asks: Sequence[Ask]) -> None:
        """Lock each plan and have what its decision can touch read."""
        if asks:
            self._talk.send([self._store.scopes_call(), *map(self._store.begin_call, asks)])

    def snapshots(self, asks: Sequence[Ask]) -> list[Begun]:
        """Read the snapshots of the next `asks` that were begun."""
        if self._scopes is None:
            (found,) = self._talk.receive(1)
            records = dict(_each(found, 2))
            self._commands_heard = int(records.pop(b"orders", 0))
            self._scopes = records
        replies = self._talk.receive(len(asks))
        return [self._store.snapshot_of(ask, reply, self._scopes) for ask, reply in zip(asks, replies, strict=True)]

    def commit(self, writes: Sequence[Write]) -> None:
        """Apply each changeset whose plan is still at its version.

        The standing commands must be those that were read, too.
        """
        self._talk.send([self._store.commit_call(write, self._commands_heard) for write in writes])
        self._plans += [write.changeset.plan_id for write in writes]

    def beside(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Send commands to the server behind the changesets, in the same round trip."""
        self._talk.send(commands)
        self._beside += len(commands)

    def verdicts(self) -> list[str | ResponseError]:
        """Tell what became of each commit; raises the first error of `beside`.

        That is `ok`, why nothing was written, or the error. Raises RolledBack where the server's data are older than
        this worker knows them.
        """
        replies = self._talk.receive(len(self._plans) + self._beside)
        verdicts = [self._store.verdict(plan, reply) for plan, reply in zip(self._plans, replies, strict=False)]
        if "rolled back" in verdicts:
            raise RolledBack
        for reply in replies[len(self._plans) :]:
            if isinstance(reply, Exception):
                raise reply
        return verdicts


def full_queue(verdict: str | ResponseError) -> str | None:
    """Name the queue that had no room for the steps of a commit."""
    full = isinstance(verdict, str) and verdict.startswith("full ")
    return str(verdict).rpartition("steps:")[2] if full else None


def _each(flat: list[Any], size: int) -> Iterable[tuple[Any, ...]]:
    return zip(*[iter(flat)] * size, strict=True)


def _todo(item: bytes) -> tuple[str, int]:
    step, number, *_ = item.decode().split(" ")
    return step, int(number)
