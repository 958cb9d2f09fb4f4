"""One line in a worker's log for each plan that ends, or begins to wait for somebody."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from schemas.base import PlanState
from schemas.event import event_type
from schemas.stored import PlanRecord
from schemas.traceparent import trace_id_of
from tasks.plan.changeset import Changeset
from worker.telemetry import metrics
from worker.telemetry.counting import HERE

log = logging.getLogger("planner.plans")

# Events of a plan that are lines of the log, with the name of the line. All else is only an event.
LINES = {
    event_type("plan.completed"): "plan ended",
    event_type("plan.halted"): "plan ended",
    event_type("plan.rejected"): "plan ended",
    event_type("plan.input_requested"): "plan waits for an answer",
    event_type("plan.drafting"): "plan waits for a drafter",
    event_type("plan.held"): "plan is held",
    event_type("step.approval_requested"): "plan waits for an approval",
}
COMPLETED = (LINES[event_type("plan.completed")],)


def lines_of(changeset: Changeset) -> set[str]:
    """Name the lines that a commit, once it is made, puts into the log."""
    return {LINES[what] for what, _ in changeset.events if what in LINES}


def log_status(plan_id: str, record: PlanRecord, lines: Iterable[str], now: int, *, ends: bool) -> None:
    """Log that a plan whose commit of `now` (ms) was made has ended, or for what it waits now.

    A line has the plan's ids, state, tokens spent and milliseconds since its creation, and the rule that halted it.
    """
    for event in sorted(lines):
        head, times = record.head, record.times
        extra: dict[str, Any] = {
            "plan_id": plan_id,
            "goal_id": head.goal_id,
            "tenant": head.tenant,
            "repo": head.repo,
            "kind": head.kind,
            "state": record.state,
            "duration_ms": now - times.get("created", now),
            "tokens": record.spent["tokens"],
        }
        if record.halt:
            extra["rule"] = record.halt["rule"]
        if head.traceparent:
            extra["trace_id"] = trace_id_of(head.traceparent)
        if ends:
            extra |= record.delivery.outcome
            _count_end(record, extra["duration_ms"])
        log.info(event, extra=extra)


def _count_end(record: PlanRecord, duration_ms: int) -> None:
    HERE.count(metrics.PLANS_ENDED, record.head.kind, record.state)
    HERE.observe(metrics.PLAN_SECONDS, max(0, duration_ms) / 1000, record.head.kind)
    if record.halt and record.state == PlanState.HALTED:
        HERE.count(metrics.HALTS, record.halt["rule"])
