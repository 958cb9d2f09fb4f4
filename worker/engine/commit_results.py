"""Handles the results of commits: counters, metrics, logs and spans; before a commit, the goal's record."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from redis.exceptions import ResponseError

from schemas import codec
from schemas.base import Verdict
from schemas.command import Command
from schemas.event import event_type
from schemas.stored import PlanRecord
from schemas.traceparent import read_traceparent
from tasks.plan.changeset import Changeset, PlainChange
from tasks.plan.hot_plan import HotPlan
from tasks.plan.report import Report
from tasks.plan.snapshot import Snapshot
from worker.drafters.queue_artifacts import QueueArtifacts
from worker.engine.admission import Quota
from worker.engine.router import Router, Work
from worker.store import audit, functions, goal_record, plan_criteria
from worker.store.fleet import QUEUE
from worker.store.keys import GROUP, Partition
from worker.store.plans import PlanStore, Write, full_queue
from worker.streams.inbox import StreamEntry
from worker.telemetry import tracing
from worker.telemetry.commit_counts import COMPLETED, BatchCounts, lines_of, log_status
from worker.telemetry.tracing import Attributes, SpanKind

log = logging.getLogger("planner.engine")

OUTCOMES = {event_type("command.obeyed"): audit.DONE, event_type("command.refused"): audit.REFUSED}


class Decided(Struct, frozen=True, gc=False):
    """A decision that is ready to be written: either `write`, or the plain change `plain` of the hot plan `hot`.

    `plan` is the plan after an ordinary decision. If `work` is None, the commit only releases the plan's lock.
    """

    plan_id: str
    work: Work | None
    write: Write | None = None
    plan: Snapshot | None = None
    booked: int = 0  # tokens
    plain: PlainChange | None = None
    hot: HotPlan | None = None


@dataclass(frozen=True, slots=True)
class CommitResults:
    """Processes the results of the decisions of one engine."""

    store: PlanStore
    router: Router
    quota: Quota
    batch: BatchCounts
    drafts: QueueArtifacts | None = None  # folder for drafts of controllers, if the operator wants them

    def take(self, one: Decided, verdict: str | ResponseError, began_ns: int) -> None:
        """Process the result of a commit. If the commit failed, its messages wait for another decision."""
        if isinstance(verdict, ResponseError):
            record = one.plan.record if one.plan else one.hot.record if one.hot else None
            about = describe(one.plan_id, record) if record else {"plan_id": one.plan_id}
            log.error("commit refused", extra={**about, "error": str(verdict)})
            now = one.write.changeset.now if one.write else one.plain.now if one.plain else 0
            self.router.isolate_failure(one.plan_id, one.work or Work(), now)
        elif verdict == "ok" and one.plain and one.work and one.hot:
            self._finish_plain(one.work, one.plain, one.hot, one.booked)
        elif verdict == "ok" and one.work and one.plan and one.write:
            self._finish_ordinary(one.work, one.write.changeset, one.plan, one.booked, began_ns)
        elif (full := full_queue(verdict)) and one.work:
            one.work.full |= {full}
            self.router.applied["queue_full"] += 1

    def _finish_plain(self, work: Work, change: PlainChange, plan: HotPlan, booked: int) -> None:
        applied = self.router.applied
        applied[Verdict.APPLIED] += 1
        for start in change.starts:
            applied[QUEUE + start.attempt.queue] += 1
        if self.batch.counts:
            self.batch.count_plain(plan, change, work.reports[0][1], booked)
        if change.end:
            log_status(change.plan_id, plan.record, COMPLETED, change.now, ends=True)
            self.router.beside += self.conclusion(change.plan_id, plan.record, change.now)
        del work.reports[0]
        if not (work.reports or work.commands or work.due):
            del self.router.waiting[change.plan_id]

    def _finish_ordinary(self, work: Work, changeset: Changeset, plan: Snapshot, booked: int, began_ns: int) -> None:
        for applied in changeset.verdicts:
            self.router.applied[applied] += 1
        for dispatch in changeset.dispatches:
            self.router.applied[QUEUE + dispatch.attempt.queue] += 1
        self.batch.count(plan, changeset, work.messages, booked, is_due=work.due is not None)
        log_status(plan.plan_id, plan.record, lines_of(changeset), changeset.now, ends=changeset.ends)
        if self.drafts:
            self.drafts.note(plan.plan_id, (message for _, message in work.messages), changeset.dispatches)
        if work.commands:
            self.router.beside += audited(work.messages, changeset)
        if tracing.is_on():
            note_decision(self.store.partition, work.messages, plan.record, changeset, began_ns)
        if changeset.ends:
            self.router.beside += self.conclusion(plan.plan_id, plan.record, plan.now)
        if changeset.short:
            self.quota.refill(self.store.partition, changeset.short, changeset.now)
        if work.finish(changeset):
            del self.router.waiting[changeset.plan_id]

    def answer_goal(self, plan: Snapshot, verdict: str) -> None:
        """Write a goal's verdict before the commit, because it is in another slot.

        After a crash the answer stays pending.
        """
        head, reason = plan.record.head, plan.record.cause
        place, kept_s = (head.goal_id, head.tenant), self.store.retention_s
        goal_record.settle(self.store.client, place, plan.plan_id, verdict, reason, kept_s, *goal_record.OPEN)

    def conclude_again(self, plan: Snapshot) -> None:
        """Write a plan's end into its goal's record if that was not confirmed.

        The next commit sets the plan's last timer.
        """
        if "ended" in plan.record.times:
            *told, _ = self.conclusion(plan.plan_id, plan.record, plan.now)
            functions.call_each(self.store.client, told)

    def conclusion(self, plan_id: str, record: PlanRecord, now: int) -> list[tuple[Any, ...]]:
        """Return the commands that write a plan's end into the record of its goal."""
        partition, retention_s = self.store.partition, self.store.retention_s
        criteria = plan_criteria.read(self.store.client, record.head.kind, partition.plan(plan_id))
        return goal_record.conclude(partition, plan_id, record, now, retention_s, criteria)


def audited(messages: Sequence[tuple[StreamEntry | None, Any]], changeset: Changeset) -> list[tuple[Any, ...]]:
    """Return the calls that record operators' commands in the audit log; a repeated command is not recorded again."""
    told = [(kind, codec.loads(data)) for kind, data in changeset.events if kind in OUTCOMES]
    became = {data["command_id"]: (OUTCOMES[kind], data.get("reason", "")) for kind, data in told}
    return [
        audit.call_of_command(command, entry.field("source"), *became[command.command_id])
        for entry, command in messages
        if entry and command.command_id in became
    ]


def describe(plan_id: str, record: PlanRecord) -> dict[str, str]:
    """Return the fields of a log line about a plan: its ids and kind, and the halt rule if one ended it."""
    rule = {"rule": record.halt["rule"]} if record.halt else {}
    return {"plan_id": plan_id, "goal_id": record.head.goal_id, "kind": record.head.kind, **rule}


def note_decision(
    partition: Partition,
    messages: Sequence[tuple[StreamEntry | None, Any]],
    record: PlanRecord,
    changeset: Changeset,
    began_ns: int,
) -> None:
    """Record spans of a commit in its plan's trace, one for each message that led to it; nothing without a trace."""
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
    """Record the sent steps of commits as spans below the span `parent`."""
    for changeset in changesets if parent else ():
        for step_id, attempt, _ in changeset.dispatches:
            stream = partition.steps(attempt.queue)
            about: Attributes = {"planner.plan_id": changeset.plan_id, "planner.step_id": step_id}
            told = tracing.messaging("send", stream, {**about, "planner.attempt": attempt.attempt})
            tracing.note(f"send {stream}", SpanKind.PRODUCER, parent or "", began_ns, told)
