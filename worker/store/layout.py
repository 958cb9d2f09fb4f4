"""A change as the arguments of commit.lua: keys first, then values, then the sections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import floordiv
from typing import Any, NamedTuple

from tasks.plan.changeset import Changeset
from worker.store import functions
from worker.store.commits import Commits
from worker.store.keys import Partition

SECTION_SIZES = (2, 2, 2, 2, 1, 5, 8, 1, 1, 2, 2, 2, 2, 3, 4)  # as SECTIONS in commit.lua
NOTHING_SELDOM: tuple[Sequence[Any], ...] = ((), (), (), ())
EVENTS_CAP = 10_000
MAX_QUEUE = 10_000  # specs; more stay in their plans until a place is free


class Write(NamedTuple):
    """A change with the entries (stream, id) that it acknowledges."""

    change: Changeset
    acks: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """How commits of one partition are laid out; `token` names this worker, a queue takes `max_queue` specs."""

    partition: Partition
    token: str
    retention_s: int
    commits: Commits
    max_queue: int

    def commit_call(self, write: Write, orders: int | str = "") -> tuple[Any, ...]:
        """Lay out a change as commit.lua reads it: KEYS, then counts, then SECTIONS in their order.

        `orders` is how many orders the partition had heard of when it was decided, if that matters.
        """
        change, partition = write.change, self.partition
        k = partition.plan(change.plan_id)
        keys = [*k, partition.timers, partition.events, partition.plans]
        keys += (partition.grants, partition.commits, partition.tenants, partition.scopes)
        sections = self._sections(write, _Places(keys))
        return (
            "FCALL",
            functions.COMMIT,
            len(keys),
            *keys,
            change.plan_id,
            change.expected,
            self.token,
            int(change.changed),
            change.now,
            self.retention_s if change.ends else 0,
            EVENTS_CAP,
            change.log,
            "" if change.wake is None else change.wake,
            self.commits.field,
            self.commits.known,
            self.max_queue,
            change.tenant,
            orders,
            *map(floordiv, map(len, sections), SECTION_SIZES),
            *chain.from_iterable(sections),
        )

    def _sections(self, write: Write, place: _Places) -> tuple[Sequence[Any], ...]:
        change = write.change
        lease = self.partition.lease_prefix(change.plan_id)
        return (
            _flat(change.fields.items()),
            _flat(change.statuses.items()),
            _flat(change.specs.items()),
            _flat([(index, step) for step, index in change.ready_add.items()]) if change.ready_add else (),
            change.ready_remove,
            self._ended(change, place, lease),
            self._starts(change, place, lease),
            (change.todo_pop,) if change.todo_pop else (),
            [f"{step} {number}" for step, number in change.todo_push] if change.todo_push else (),
            _flat(change.events),
            _flat([(place(stream), entry) for stream, entry in write.acks]),
            *(self._seldom(change, place, lease) if _has_seldom(change) else NOTHING_SELDOM),
        )

    def _ended(self, change: Changeset, place: _Places, lease: str) -> list[Any]:
        told: list[Any] = []
        for step, attempt in change.ended.items():
            queue = place(self.partition.steps(attempt.queue))
            told += (step, queue, attempt.entry, place(lease + step), int(step in change.cancelled))
        return told

    def _starts(self, change: Changeset, place: _Places, lease: str) -> list[Any]:
        told: list[Any] = []
        for step, attempt, spec in change.dispatches:
            told += (step, place(self.partition.steps(attempt.queue)), place(lease + step), spec)
            told += (attempt.attempt, attempt.lease, attempt.tokens, attempt.encode())
        return told

    def _seldom(self, change: Changeset, place: _Places, lease: str) -> tuple[Sequence[Any], ...]:
        """Lay out the last sections, which the change of a plain outcome has not."""
        return (
            _flat([(place(lease + step), renewed) for step, renewed in change.guards.items()]),
            _flat([(place(lease + step), action) for step, action in change.actions.items()]),
            _flat([(scope, tokens, change.rests_on.get(scope, "")) for scope, tokens in change.taken.items()]),
            _flat(
                [(place(self.partition.recall(one.name)), one.field, one.seen, one.change) for one in change.recalls]
            ),
        )


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


def _has_seldom(change: Changeset) -> bool:
    return bool(change.guards or change.actions or change.taken or change.recalls)


def _flat(rows: Collection[Iterable[Any]]) -> Sequence[Any]:
    return list(chain.from_iterable(rows)) if rows else ()
