"""Spans of decisions that were committed: what was processed, and which steps were sent for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from schemas.command import Command
from schemas.stored import PlanRecord
from schemas.traceparent import read_traceparent
from tasks.plan.changeset import Changeset
from tasks.plan.report import Report
from worker.store.keys import GROUP, Partition
from worker.streams.inbox import StreamEntry
from worker.telemetry import tracing
from worker.telemetry.tracing import Attributes, SpanKind


def note_decision(
    partition: Partition,
    messages: Sequence[tuple[StreamEntry | None, Any]],
    record: PlanRecord,
    changeset: Changeset,
    began_ns: int,
) -> None:
    """Note what a commit did for a plan that belongs to a trace; messages are those that it was decided by."""
    trace = record.head.traceparent
    if trace is None:
        return
    led_by = trace
    about: dict[str, str | int | float | bool] = {
        "planner.plan_id": changeset.plan_id,
        "planner.plan.state": record.state,
    }
    if record.halt and changeset.ends:
        about["planner.halt.rule"] = record.halt["rule"]
    verdicts = iter(changeset.verdicts)
    for entry, message in messages:
        if entry is None:
            continue
        parent, more = trace, dict(about)
        if isinstance(message, Report):
            said = message.outcome
            parent = said.traceparent or read_traceparent(entry.field("traceparent")) or trace
            more |= {"planner.step_id": said.step_id, "planner.success": said.success}
            more["planner.verdict"] = next(verdicts, "")
        elif isinstance(message, Command):
            more["planner.command"] = message.command.value
        more |= {"messaging.message.id": entry.entry_id.decode(), "messaging.consumer.group.name": GROUP}
        told = tracing.messaging("process", entry.stream, more)
        led_by = tracing.note(f"process {entry.stream}", SpanKind.CONSUMER, parent, began_ns, told)
    note_sends(partition, (changeset,), led_by, began_ns)


def note_sends(partition: Partition, changesets: Iterable[Changeset], parent: str | None, began_ns: int) -> None:
    """Note the steps that commits have sent, as what the span `parent` led to."""
    for changeset in changesets if parent else ():
        for step_id, attempt, _ in changeset.dispatches:
            stream = partition.steps(attempt.queue)
            about: Attributes = {"planner.plan_id": changeset.plan_id, "planner.step_id": step_id}
            told = tracing.messaging("send", stream, {**about, "planner.attempt": attempt.attempt})
            tracing.note(f"send {stream}", SpanKind.PRODUCER, parent or "", began_ns, told)
