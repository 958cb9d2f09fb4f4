"""Adds a commit to the metrics: outcomes, attempts, steps and revisions.

This runs with every outcome, so it only adds to a tally, which is turned into numbers once a batch.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from schemas import codec
from schemas.base import PlanState, StepState, Verdict
from schemas.event import event_type
from schemas.outcome import Metrics
from schemas.plain_outcome import PlainMetrics
from schemas.stored import Attempt, PlanRecord
from schemas.traceparent import trace_id_of
from tasks.plan.changeset import Changeset, PlainChange
from tasks.plan.end_sum import MOST_USD
from tasks.plan.hot_plan import HotPlan
from tasks.plan.report import PlainReport, Report
from tasks.plan.snapshot import Snapshot, Step
from worker.telemetry import metrics
from worker.telemetry.metrics import HERE, Board, Tally

DONE = event_type("step.done")
STEP_ENDS = {
    DONE: (metrics.STEPS, ("success",)),
    event_type("step.failed"): (metrics.STEPS, ("failed",)),
    event_type("step.skipped"): (metrics.STEPS, ("skipped",)),
    event_type("step.halted"): (metrics.STEPS, ("halted",)),
}
REVISED = event_type("step.revised")
APPLY, DECIDE, COMMIT = metrics.APPLY_SECONDS, metrics.DECIDE_SECONDS, metrics.COMMIT_SECONDS
PASSED, FAILED = (metrics.QA_EVALUATIONS, ("passed",)), (metrics.QA_EVALUATIONS, ("failed",))
OUTCOMES, DISPATCHED = metrics.OUTCOMES, metrics.STEPS_DISPATCHED  # these are asked for with every outcome
RUN, QUEUED = metrics.STEP_RUN_SECONDS, metrics.STEP_QUEUE_SECONDS
SPENT, RESERVED = metrics.SPENT_TOKENS, metrics.RESERVED_TOKENS
RESULTS = frozenset({"ok", "stale", "claimed", "gone", "full"})
COLUMNS = 3  # of the table of revisions; later failures are treated as the third
MOST_TOKENS = 10**9
MOST_S = 30 * 86_400  # limit for the reported time of an attempt
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


class BatchCounts:
    """The metrics of the commits of one batch, and its times to decide and to commit; for one engine and one thread."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._board: Board | None = None
        self.counts = False  # whether metrics are enabled
        self._began = 0.0
        self.decide_s = 0.0
        self.commit_s = 0.0

    def begin(self) -> None:
        """Begin a batch."""
        self._board = HERE.board
        self.counts = self._board is not None
        self._began = time.perf_counter()
        self.decide_s = self.commit_s = 0.0

    def count(
        self, plan: Snapshot, changeset: Changeset, messages: Sequence[tuple[Any, Any]], booked: int, *, is_due: bool
    ) -> None:
        """Count a commit of `plan`, which has its new state, with the `messages` that led to it.

        `booked` are the tokens that the commit charges. `is_due` is True if an expired clock led to it instead of a
        message.
        """
        if self._board is None:
            return
        record, events = plan.record, self._tally.events
        for verdict, (_, report) in zip(changeset.verdicts, messages, strict=False):  # commands have none
            if verdict is Verdict.APPLIED:
                _count_outcome(self._tally, plan, report, changeset)
            else:
                events.append((OUTCOMES, (verdict.value, "none")))
        for what, data in changeset.events:
            if what in STEP_ENDS:
                events.append(STEP_ENDS[what])
            elif what == REVISED:
                events.append((metrics.REVISIONS, (_row(codec.loads(data)),)))
        if is_due and (expired := len(changeset.ended) - len(changeset.cancelled)):
            self._tally.counts[metrics.LEASES_EXPIRED, ()] += expired
        if changeset.dispatches:
            self._count_dispatches(plan, changeset)
        if booked > 0:
            self._tally.counts[SPENT, (record.head.kind,)] += booked

    def count_plain(self, plan: HotPlan, change: PlainChange, report: Report | PlainReport, booked: int) -> None:
        """Count a plain commit of `plan`, in its new state, with its report, as `count` does."""
        if not isinstance(report, PlainReport):
            return
        events, said, kind = self._tally.events, report.said, (plan.record.head.kind,)
        events += ((OUTCOMES, ("applied", "none")), STEP_ENDS[DONE])
        if said.tests_passed is not None:
            events.append(PASSED if said.tests_passed else FAILED)
        _count_times(self._tally, change.ended, change.now, said.metrics)
        if said.metrics:
            _count_model(self._tally.counts, said.metrics, plan.record.head.kind)
        for start in change.starts:
            events.append((DISPATCHED, (start.attempt.queue, plan.steps[start.step_id].facts["risk_level"])))
            self._tally.counts[RESERVED, kind] += start.attempt.tokens
        if len(change.starts) > 1:
            events.append((metrics.PARALLEL_BATCHES, ()))
        if booked > 0:
            self._tally.counts[SPENT, kind] += booked

    def _count_dispatches(self, plan: Snapshot, changeset: Changeset) -> None:
        counts, kind = self._tally.counts, (plan.record.head.kind,)
        for step_id, attempt, _ in changeset.dispatches:
            self._tally.events.append((DISPATCHED, (attempt.queue, plan.steps[step_id].facts["risk_level"])))
            counts[RESERVED, kind] += attempt.tokens
        if len(changeset.dispatches) > 1:
            self._tally.events.append((metrics.PARALLEL_BATCHES, ()))

    def end(self, verdicts: Sequence[str | Exception]) -> None:
        """End a batch with the verdicts of its commits: its counters are published from now on."""
        if self._board is None:
            return
        if verdicts:
            whole = time.perf_counter() - self._began
            for metric, size in ((APPLY, whole), (DECIDE, self.decide_s), (COMMIT, self.commit_s)):
                self._tally.sizes[metric, ()].append(size)
            for verdict, times in Counter(map(str, verdicts)).items():
                result = verdict.partition(" ")[0]
                self._tally.counts[metrics.COMMITS, (result if result in RESULTS else "refused",)] += times
        self._board.take(self._tally)


def count_first_steps(changesets: Iterable[Changeset], kind: str) -> None:
    """Count the steps that the commits of a new plan handed out."""
    if HERE.board is None:
        return
    tally = Tally()
    for changeset in changesets:
        for _, attempt, spec in changeset.dispatches:
            tally.counts[metrics.STEPS_DISPATCHED, (attempt.queue, codec.loads(spec)["risk_level"])] += 1
            tally.counts[metrics.RESERVED_TOKENS, (kind,)] += attempt.tokens
        if len(changeset.dispatches) > 1:
            tally.counts[metrics.PARALLEL_BATCHES, ()] += 1
    HERE.board.take(tally)


def _count_outcome(tally: Tally, plan: Snapshot, report: Report, changeset: Changeset) -> None:
    outcome, events = report.outcome, tally.events
    step_id, said = outcome.step_id, outcome.metrics
    events.append((OUTCOMES, ("applied", _category(plan.steps[step_id], report))))
    if outcome.tests_passed is not None:
        events.append(PASSED if outcome.tests_passed else FAILED)
    if attempt := changeset.ended.get(step_id):
        _count_times(tally, attempt, changeset.now, said)
    if said:
        _count_model(tally.counts, said, plan.record.head.kind)


def _count_times(tally: Tally, attempt: Attempt, now: int, said: Metrics | PlainMetrics | None) -> None:
    """Record the running time of an ended attempt, as its controller reports it, and the rest as queue time."""
    worked, queue = 0.0, (attempt.queue,)
    if said and said.duration_ms is not None:
        worked = min(max(0, said.duration_ms) / 1000, MOST_S)
        tally.sizes[RUN, queue].append(worked)
    tally.sizes[QUEUED, queue].append(max(0.0, (now - attempt.at) / 1000 - worked))


def _count_model(counts: Any, said: Metrics | PlainMetrics, kind: str) -> None:
    """Count the cost and the tokens of a model that a controller reports; negative values count as 0."""
    if not (said.cost_usd or said.input_tokens or said.output_tokens or said.cached_tokens):
        return
    if said.cost_usd and said.cost_usd > 0:
        counts[metrics.COST, (kind,)] += min(said.cost_usd, MOST_USD)
    directions = (("input", said.input_tokens), ("output", said.output_tokens), ("cached", said.cached_tokens))
    for direction, tokens in directions:
        if tokens and tokens > 0:
            counts[metrics.LLM_TOKENS, (direction,)] += min(tokens, MOST_TOKENS)


def _category(step: Step, report: Report) -> str:
    """Return the failure category of an applied outcome; `none` without a failure."""
    if step.status.state == StepState.DONE or report.outcome.released:
        return "none"
    return str((step.status.previous or {}).get("category") or "none")


def _row(event: dict[str, Any]) -> str:
    return f"{event['reason']}:{min(event['value'], COLUMNS)}"


COMPLETED = (LINES[event_type("plan.completed")],)


def lines_of(changeset: Changeset) -> set[str]:
    """Return the log lines that a commit causes."""
    return {LINES[what] for what, _ in changeset.events if what in LINES}


def log_status(plan_id: str, record: PlanRecord, lines: Iterable[str], now: int, *, ends: bool) -> None:
    """Log the end of a plan, or the reason why it waits, after its commit at `now` (ms).

    A line has the plan's ids, state, tokens spent, milliseconds since its creation, and the halt rule if one ended it.
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
