"""The calls that write decisions, laid out as `lua/commit.lua` and `lua/plain_commits.lua` read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, count
from operator import floordiv
from typing import Any, NamedTuple, Protocol

from schemas import codec
from tasks.base.series import series_name
from tasks.plan.changeset import Changeset
from tasks.policy.plain_writes import PlainChange
from worker.store import functions
from worker.store.commits import Commits
from worker.store.keys import Partition, list_name

EVENTS_CAP = 200_000  # of a partition; event_keeper.py cuts by age and bytes
MAX_QUEUE = 10_000  # specs; more stay in their plans until a place is free
SECTION_SIZES = (2, 2, 2, 2, 1, 5, 8, 1, 1, 2, 2, 2, 2, 3, 4, 1, 5, 2, 5, 2, 2)  # as SECTIONS in commit.lua
NO_WAKE = "-"  # where the plan's timer stays


class Write(NamedTuple):
    """A changeset with the entries (stream, id) that it acknowledges."""

    changeset: Changeset
    acks: Sequence[tuple[str, bytes]] = ()


class Terms(Protocol):
    """What the commits of a worker in a partition have in common.

    `token` names the worker in locks; a queue takes `max_queue` specs.
    """

    @property
    def partition(self) -> Partition: ...  # noqa: D102
    @property
    def token(self) -> str: ...  # noqa: D102
    @property
    def retention_s(self) -> int: ...  # noqa: D102
    @property
    def commits(self) -> Commits: ...  # noqa: D102
    @property
    def max_queue(self) -> int: ...  # noqa: D102


def commit_call(terms: Terms, write: Write, commands_heard: int | str = "") -> tuple[Any, ...]:
    """Lay out a changeset as commit.lua reads it.

    KEYS come first, then counts, then SECTIONS in their order. `commands_heard` is how many standing commands the
    partition had heard of when it was decided, if that matters.
    """
    changeset, partition = write.changeset, terms.partition
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
        _flat(changeset.taken and [(s, used, changeset.rests_on.get(s, "")) for s, used in changeset.taken.items()]),
        _flat(
            changeset.history
            and [(place[partition.recall(one.name)], one.field, one.seen, one.change) for one in changeset.history]
        ),
        changeset.lists and [list_name(name) for name in changeset.lists],
        _flat(
            changeset.kept
            and [
                (place[partition.kept(name)], field, value, of or most, kept_s)
                for name, field, value, most, kept_s, of in changeset.kept
            ]
        ),
        (series_name(changeset.sum.tenant, changeset.sum.repo), changeset.sum.added) if changeset.sum else (),
        _flat(
            changeset.claims and [(place[partition.claims_of(one.repository)], *one[1:]) for one in changeset.claims]
        ),
        _flat(changeset.failures and [(series, codec.dumps([*about])) for series, about in changeset.failures]),
        (changeset.probe[0], codec.dumps([*changeset.probe[1]])) if changeset.probe else (),
    )
    return (
        "FCALL",
        functions.COMMIT,
        len(keys) + len(place),
        *keys,
        *place,
        changeset.plan_id,
        changeset.expected,
        terms.token,
        int(changeset.changed),
        changeset.now,
        terms.retention_s if changeset.ends else 0,
        EVENTS_CAP,
        changeset.log,
        "" if changeset.wake is None else changeset.wake,
        terms.commits.field,
        terms.commits.known,
        terms.max_queue,
        changeset.tenant,
        commands_heard,
        *map(floordiv, map(len, sections), SECTION_SIZES),
        *chain.from_iterable(sections),
    )


def plain_call(terms: Terms, changes: Sequence[PlainChange], commands_heard: int | str) -> tuple[Any, ...]:
    """Lay out plain changes of several plans as plain_commits.lua reads them."""
    p = terms.partition
    keys = (p.commits, p.outcomes, p.events, p.timers, p.scopes, p.plans, p.tenants)
    call: list[Any] = ["FCALL", functions.PLAIN_COMMITS, len(keys), *keys, terms.commits.field, terms.commits.known]
    call += (commands_heard, EVENTS_CAP, terms.max_queue, terms.retention_s)
    for change in changes:
        ended, statuses, added = change.ended, change.statuses, change.ready_add
        sizes = f"{len(change.starts)} {len(statuses)} {len(added)} {len(change.ready_remove)}"
        about = f"{change.plan_id} {change.expected} {change.now} {change.entry} {change.step_id}"
        wake = NO_WAKE if change.wake is None else change.wake
        call += (
            *(f"{about} {ended.queue} {ended.entry} {sizes} {wake}", change.live, change.log, change.status),
            change.event,
        )
        for start in change.starts:
            attempt = start.attempt
            call += (
                f"{start.step_id} {attempt.queue} {attempt.attempt} {attempt.lease} {attempt.tokens}",
                *(start.status, start.spec, start.record, start.event),
            )
        if statuses:
            call += _flat(statuses)
        if added:
            call += _flat([(index, step_id) for step_id, index in added])
        call += change.ready_remove
        if end := change.end:
            tenant, repo, figures = end.sum
            call += (tenant, end.event, " ".join(map(list_name, end.lists)), series_name(tenant, repo), figures)
    return tuple(call)


def _flat(rows: Collection[Iterable[Any]]) -> Sequence[Any]:
    return list(chain.from_iterable(rows)) if rows else ()
