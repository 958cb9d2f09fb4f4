"""The call that writes decisions, laid out as `lua/commit.lua` reads it: each plan as named parts (commit_parts.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from schemas import codec
from schemas.event import event_type
from schemas.stored import Attempt, StepStatus, decode_plan
from schemas.stored.step import read_texts
from tasks.base.series import series_name
from tasks.plan.changeset import Changeset, PlainChange
from tasks.plan.hot_plan import HotPlan
from tasks.plan.snapshot import NOTE, Snapshot, Step, Window
from worker.store import commit_parts as parts
from worker.store.commit_parts import NONE, PARTS
from worker.store.keys import Partition, list_name

EVENTS_CAP = 200_000  # of a partition; event_keeper.py cuts by age and bytes
MAX_QUEUE = 10_000  # specs; further ones stay in their plans until there is capacity
STARTED, DONE, COMPLETED = map(event_type, ("step.started", "step.done", "plan.completed"))
ENDED, START, ACK, TAKEN, RECALL, USED, KEPT = (
    PARTS[name].form for name in ("ended", "start", "ack", "taken", "recall", "used", "kept")
)


class Write(NamedTuple):
    """A changeset with the entries (stream, id) that it acknowledges."""

    changeset: Changeset
    acks: Sequence[tuple[str, bytes]] = ()


def lay_out(writes: Sequence[Write | PlainChange], partition: Partition) -> list[Any]:
    """Return the changes of several plans as the arguments of commit.lua.

    The first argument contains the number of arguments of each change.
    """
    sizes: list[str] = []
    laid: list[Any] = [""]
    for write in writes:
        if isinstance(write, PlainChange):
            change: Changeset | PlainChange = write
            kind = "end" if write.end else "change"
            named, values = _lay_out_plain(write)
        else:
            change = write.changeset
            kind = "end" if change.ends else "change" if change.changed else "look"
            rows_of = _parts(write, partition)
            named = " ".join([f"{name}:{len(rows)}" for name, rows in rows_of.items() if rows])
            values = [*chain.from_iterable(rows_of.values())]
        laid.append(f"{change.plan_id} {change.expected} {change.now} {kind} {named}")
        laid += values
        sizes.append(str(len(values) + 1))
    laid[0] = " ".join(sizes)
    return laid


def _lay_out_plain(change: PlainChange) -> tuple[str, list[Any]]:
    """Return the names of the parts of a plain change, and their arguments.

    Parts that no plain change has are skipped.
    """
    step_id, ended, end = change.step_id, change.ended, change.end
    statuses: list[Any] = [step_id, change.status]
    starts: list[Any] = []
    events: list[Any] = [DONE, change.event]
    for start in change.starts:
        one = start.attempt
        starts += (START % (start.step_id, one.queue, one.attempt, one.lease, one.tokens), start.spec, start.record)
        statuses += (start.step_id, start.status)
        events += (STARTED, start.event)
    if change.statuses:
        statuses += _flat(change.statuses)
    if end:
        events += (COMPLETED, end.event)
    named = f"status:{len(statuses)} start:{len(starts)} event:{len(events)} ended:1 ack:1 log:1"
    values = [*statuses, *starts, *events, ENDED % (step_id, ended.queue, ended.entry, parts.DONE)]
    values += (f"outcomes {change.entry}", change.log)
    if change.used:
        named += " used:1"
        values.append(USED % change.used)
    if change.memory:
        named += " memory:2"
        values += change.memory
    if change.ready_add:
        named += f" ready:{2 * len(change.ready_add)}"
        values += _flat([(index, step) for step, index in change.ready_add])
    if change.ready_remove:
        named += f" unready:{len(change.ready_remove)}"
        values += change.ready_remove
    if end:
        tenant, repo, figures = end.sum
        named += f" tenant:1 sum:2 list:{len(end.lists)} field:4"
        values += (tenant, series_name(tenant, repo), figures, *map(list_name, end.lists), "state", b"COMPLETED")
    else:
        if change.wake is not None:
            named += " wake:1"
            values.append(change.wake)
        named += " field:2"
    values += ("live", change.live)
    return named, values


def _parts(write: Write, partition: Partition) -> dict[str, Sequence[Any]]:
    change = write.changeset
    ended = [ENDED % (step, one.queue, one.entry or NONE, _end_of(change, step)) for step, one in change.ended.items()]
    started = [
        (START % (step, one.queue, one.attempt, one.lease, one.tokens), spec, one.encode())
        for step, one, spec in change.dispatches
    ]
    acks = [ACK % (stream.removeprefix(partition.tag), entry.decode()) for stream, entry in write.acks]
    # What few outcomes have is looked at first: going through nothing would cost every other one.
    return {
        "field": _flat(change.fields.items()),
        "status": _flat(change.statuses.items()),
        "spec": _flat(change.specs.items()),
        "ready": _flat(change.ready_add and [(index, step) for step, index in change.ready_add.items()]),
        "unready": change.ready_remove,
        "ended": ended,
        "start": _flat(started),
        "undone": (change.todo_pop,) if change.todo_pop else (),
        "todo": change.todo_push and [f"{step} {number}" for step, number in change.todo_push],
        "log": (change.log,) if change.log else (),
        "event": _flat(change.events),
        "ack": acks,
        "wake": () if change.wake is None else (change.wake,),
        "tenant": (change.tenant,) if change.ends or change.expected == 0 else (),
        "guard": [f"{step} {seen}" for step, seen in change.guards.items()],
        "action": [f"{step} {action}" for step, action in change.actions.items()],
        "calls": [f"{step} {most}" for step, most in change.call_limits.items()],
        "taken": _flat(
            change.taken
            and [(TAKEN % (used, change.rests_on.get(scope, NONE)), scope) for scope, used in change.taken.items()]
        ),
        "recall": _flat(
            change.history
            and [
                (RECALL % (one.name, str(one.seen) or NONE, str(one.change) or NONE), one.field)
                for one in change.history
            ]
        ),
        "used": change.used and [USED % one for one in change.used],
        "memory": _flat(change.memory),
        "list": change.lists and [list_name(name) for name in change.lists],
        "kept": _flat(
            change.kept
            and [(KEPT % (one.name, one.most, one.kept_s, one.of or NONE), one.field, one.value) for one in change.kept]
        ),
        "sum": (series_name(change.sum.tenant, change.sum.repo), change.sum.added) if change.sum else (),
        "claim": _flat(change.claims),
        "keep": _flat(change.keeps),
        "failure": _flat(change.failures and [(series, codec.dumps([*about])) for series, about in change.failures]),
        "probe": (change.probe[0], codec.dumps([*change.probe[1]])) if change.probe else (),
    }


def _end_of(change: Changeset, step: str) -> int:
    """Return how a step's attempt ended: CANCELLED, DONE or FAILED of commit_parts, or 0 for any other end."""
    if step in change.cancelled:
        return parts.CANCELLED
    done = change.worked.get(step)
    return 0 if done is None else parts.DONE if done else parts.FAILED


def _flat(rows: Collection[Iterable[Any]]) -> Sequence[Any]:
    return list(chain.from_iterable(rows)) if rows else ()


def read_whole(partition: Partition, plan_id: str, reply: Any) -> HotPlan:
    """Return a plan that was read whole."""
    _, _, hot, fields, statuses, flying, queue, items, _, _ = reply
    read = (decode_plan(hot), *(each(some, 2) for some in (fields, statuses, flying)), queue, items)
    return HotPlan.load(plan_id, _places(partition, plan_id), *read)


def read_ahead(partition: Partition, plan_id: str, reply: Any, ahead: int) -> HotPlan:
    """Return the part of a large plan that its next outcomes can change; `ahead` steps of it were read ahead."""
    hot, fields, statuses, flying, queue, more_ready = reply
    read = (decode_plan(hot), *(each(some, 2) for some in (fields, statuses, flying)), queue, ())
    return HotPlan.load(plan_id, _places(partition, plan_id), *read, ahead=ahead, more_ready=bool(more_ready))


def read_snapshot(partition: Partition, plan_id: str, named: Sequence[str], reply: Any) -> Snapshot:
    """Return the part of a plan that was read for a decision about the steps and notes `named`.

    The caller adds the plan's context, such as bulk commands.
    """
    now, _, hot, names, specs, records, windows, flying, queue, page, items, todo_length, _, _, raw_texts = reply
    texts = read_texts(raw_texts)
    reply_to, lease_prefix = _places(partition, plan_id)
    return Snapshot(
        plan_id=plan_id,
        now=now,
        record=decode_plan(hot),
        steps={
            (step := name.decode()): Step(step, spec, StepStatus.decode(record), texts=texts)
            for name, spec, record in zip(names, specs, records, strict=True)
            if record
        },
        windows={
            (step.decode(), number): Window(ids.decode().split(), bool(more))
            for step, number, ids, more in each(windows, 4)
        },
        active={step.decode(): Attempt.decode(record) for step, record in each(flying, 2)},
        notes={}
        if all(records)  # a note has none
        else {step[1:]: spec or b"" for step, spec in zip(named, specs, strict=False) if step[0] == NOTE},
        ready=[step.decode() for step in queue],
        ready_beyond=len(queue) >= page,
        todo=[(step, int(number)) for step, number, *_ in (item.decode().split(" ") for item in items)],
        todo_beyond=todo_length - len(items),
        reply_to=reply_to,
        lease_prefix=lease_prefix,
    )


def each(flat: Sequence[Any], size: int) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of a table from a list that contains all cells in sequence; a row has `size` cells."""
    return zip(*[iter(flat)] * size, strict=True)


def _places(partition: Partition, plan_id: str) -> tuple[str, str]:
    """Return the stream for outcomes of a plan, and the prefix of its leases."""
    return partition.outcomes, partition.lease_prefix(plan_id)
