"""Decodes what begin.lua and prefetch.lua answer about a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from schemas.stored import Attempt, StepStatus, decode_plan
from schemas.stored_step import read_texts
from tasks.plan.hot_plan import HotPlan
from tasks.plan.snapshot import NOTE, Snapshot, Step, Window
from worker.store.keys import Partition


def read_whole(partition: Partition, plan_id: str, reply: Any) -> HotPlan:
    """Decode a plan that was read whole."""
    _, _, hot, fields, statuses, flying, queue, items, _, _ = reply
    read = (decode_plan(hot), *(each(some, 2) for some in (fields, statuses, flying)), queue, items)
    return HotPlan.load(plan_id, _places(partition, plan_id), *read)


def read_ahead(partition: Partition, plan_id: str, reply: Any, ahead: int) -> HotPlan:
    """Decode the part of a large plan that was read for its next outcomes, so many steps `ahead`."""
    hot, fields, statuses, flying, queue, more_ready = reply
    read = (decode_plan(hot), *(each(some, 2) for some in (fields, statuses, flying)), queue, ())
    return HotPlan.load(plan_id, _places(partition, plan_id), *read, ahead=ahead, more_ready=bool(more_ready))


def read_snapshot(partition: Partition, plan_id: str, named: Sequence[str], reply: Any) -> Snapshot:
    """Decode the part of a plan that was read for a decision about the steps and notes `named`.

    What stands around the plan is for the caller to add.
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
    """Give the rows of a table that came flat."""
    return zip(*[iter(flat)] * size, strict=True)


def _places(partition: Partition, plan_id: str) -> tuple[str, str]:
    """Tell where the outcomes of a plan go, and what its leases begin with."""
    return partition.outcomes, partition.lease_prefix(plan_id)
