"""A changeset as the arguments of commit.lua: keys, values, then the sections."""

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
    """A changeset with the entries (stream, id) that it acknowledges."""

    changeset: Changeset
    acks: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """How commits of one partition are laid out.

    `token` names this worker, a queue takes `max_queue` specs.
    """

    partition: Partition
    token: str
    retention_s: int
    commits: Commits
    max_queue: int

    def commit_call(self, write: Write, commands_heard: int | str = "") -> tuple[Any, ...]:
        """Lay out a changeset as commit.lua reads it.

        KEYS come first, then counts, then SECTIONS in their order. `commands_heard` is how many standing commands the
        partition had heard of when it was decided, if that matters.
        """
        changeset, partition = write.changeset, self.partition
        k = partition.plan(changeset.plan_id)
        keys = [*k, partition.timers, partition.events, partition.plans]
        keys += (partition.grants, partition.commits, partition.tenants, partition.scopes)
        sections = self._sections(write, _Places(keys))
        return (
            "FCALL",
            functions.COMMIT,
            len(keys),
            *keys,
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

    def _sections(self, write: Write, place: _Places) -> tuple[Sequence[Any], ...]:
        changeset = write.changeset
        lease = self.partition.lease_prefix(changeset.plan_id)
        return (
            _flat(changeset.fields.items()),
            _flat(changeset.statuses.items()),
            _flat(changeset.specs.items()),
            _flat([(index, step) for step, index in changeset.ready_add.items()]) if changeset.ready_add else (),
            changeset.ready_remove,
            self._ended(changeset, place, lease),
            self._starts(changeset, place, lease),
            (changeset.todo_pop,) if changeset.todo_pop else (),
            [f"{step} {number}" for step, number in changeset.todo_push] if changeset.todo_push else (),
            _flat(changeset.events),
            _flat([(place(stream), entry) for stream, entry in write.acks]),
            *(self._seldom(changeset, place, lease) if _has_seldom(changeset) else NOTHING_SELDOM),
        )

    def _ended(self, changeset: Changeset, place: _Places, lease: str) -> list[Any]:
        told: list[Any] = []
        for step, attempt in changeset.ended.items():
            queue = place(self.partition.steps(attempt.queue))
            told += (step, queue, attempt.entry, place(lease + step), int(step in changeset.cancelled))
        return told

    def _starts(self, changeset: Changeset, place: _Places, lease: str) -> list[Any]:
        told: list[Any] = []
        for step, attempt, spec in changeset.dispatches:
            told += (step, place(self.partition.steps(attempt.queue)), place(lease + step), spec)
            told += (attempt.attempt, attempt.lease, attempt.tokens, attempt.encode())
        return told

    def _seldom(self, changeset: Changeset, place: _Places, lease: str) -> tuple[Sequence[Any], ...]:
        """Lay out the last sections, which the changeset of a plain outcome has not."""
        return (
            _flat([(place(lease + step), renewed) for step, renewed in changeset.guards.items()]),
            _flat([(place(lease + step), action) for step, action in changeset.actions.items()]),
            _flat([(scope, tokens, changeset.rests_on.get(scope, "")) for scope, tokens in changeset.taken.items()]),
            _flat(
                [(place(self.partition.recall(one.name)), one.field, one.seen, one.change) for one in changeset.recalls]
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


def _has_seldom(changeset: Changeset) -> bool:
    return bool(changeset.guards or changeset.actions or changeset.taken or changeset.recalls)


def _flat(rows: Collection[Iterable[Any]]) -> Sequence[Any]:
    return list(chain.from_iterable(rows)) if rows else ()
