"""What a commit that was made adds to the metrics: outcomes, attempts, steps and revisions.

This runs with every outcome, so it only adds to a tally; numbers are made of that once a batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from schemas import codec
from schemas.base import StepState, Verdict
from schemas.event import event_type
from schemas.outcome import Metrics
from tasks.handlers.outcomes import Report
from tasks.plan.changeset import Changeset
from tasks.plan.snapshot import Snapshot, Step
from worker.telemetry import metrics
from worker.telemetry.counting import HERE, Tally

STEP_ENDS = {
    event_type("step.done"): (metrics.STEPS, ("success",)),
    event_type("step.failed"): (metrics.STEPS, ("failed",)),
    event_type("step.skipped"): (metrics.STEPS, ("skipped",)),
    event_type("step.halted"): (metrics.STEPS, ("halted",)),
}
REVISED = event_type("step.revised")
APPLY, DECIDE, COMMIT = metrics.APPLY_SECONDS, metrics.DECIDE_SECONDS, metrics.COMMIT_SECONDS
PASSED, FAILED = ("passed",), ("failed",)
COLUMNS = 3  # of the table of revisions; later failures are treated as the third
MOST_USD = 10_000.0  # of one attempt, as a controller says; more is a mistake
MOST_TOKENS = 10**9
MOST_S = 30 * 86_400  # that an attempt is said to have taken


class BatchCounts:
    """What the commits of a batch add to the metrics, and how long the batch took; for one engine, of one thread."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._began = 0.0
        self.decide_s = 0.0
        self.commit_s = 0.0

    def begin(self) -> None:
        """Begin a batch."""
        self._began = time.perf_counter()
        self.decide_s = self.commit_s = 0.0

    def note(self, verdict: str | Exception) -> None:
        """Note what became of a commit."""
        if HERE.board:
            result = verdict.partition(" ")[0] if isinstance(verdict, str) else "refused"
            self._tally.counts[metrics.COMMITS, (result,)] += 1

    def count(
        self, plan: Snapshot, changeset: Changeset, messages: Sequence[tuple[Any, Any]], spent: int, *, is_due: bool
    ) -> None:
        """Count a commit that was made, of `plan` as it is now, with the `messages` that it is about.

        `spent` are the plan's tokens before; `is_due` where a clock led to it, and no message.
        """
        if HERE.board is None:
            return
        counts, kind = self._tally.counts, (plan.record.head.kind,)
        for verdict, (_, report) in zip(changeset.verdicts, messages, strict=False):  # commands have none
            if verdict is Verdict.APPLIED:
                _count_outcome(self._tally, plan, report, changeset)
            else:
                counts[metrics.OUTCOMES, (verdict.value, "none")] += 1
        for what, data in changeset.events:
            if what in STEP_ENDS:
                counts[STEP_ENDS[what]] += 1
            elif what == REVISED:
                counts[metrics.REVISIONS, (_row(codec.loads(data)),)] += 1
        if is_due and (expired := len(changeset.ended) - len(changeset.cancelled)):
            counts[metrics.LEASES_EXPIRED, ()] += expired
        if changeset.dispatches:
            self._count_dispatches(plan, changeset, kind)
        if (booked := plan.record.spent["tokens"] - spent) > 0:
            counts[metrics.SPENT_TOKENS, kind] += booked

    def _count_dispatches(self, plan: Snapshot, changeset: Changeset, kind: tuple[str]) -> None:
        counts = self._tally.counts
        for step_id, attempt, _ in changeset.dispatches:
            counts[metrics.STEPS_DISPATCHED, (attempt.queue, plan.steps[step_id].facts["risk_level"])] += 1
            counts[metrics.RESERVED_TOKENS, kind] += attempt.tokens
        if len(changeset.dispatches) > 1:
            counts[metrics.PARALLEL_BATCHES, ()] += 1

    def end(self, plans: int) -> None:
        """End a batch: what was counted is told from now on."""
        if HERE.board:
            if plans:
                whole = time.perf_counter() - self._began
                for metric, size in ((APPLY, whole), (DECIDE, self.decide_s), (COMMIT, self.commit_s)):
                    self._tally.sizes[metric, ()].append(size)
            HERE.board.take(self._tally)


def count_first_steps(changesets: Iterable[Changeset], kind: str) -> None:
    """Count what the commits handed out that made a plan."""
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
    outcome, counts = report.outcome, tally.counts
    counts[metrics.OUTCOMES, ("applied", _category(plan.steps[outcome.step_id], report))] += 1
    if outcome.tests_passed is not None:
        counts[metrics.QA_EVALUATIONS, PASSED if outcome.tests_passed else FAILED] += 1
    said, attempt = outcome.metrics, changeset.ended.get(outcome.step_id)
    if attempt:
        worked = 0.0
        if said and said.duration_ms is not None:
            worked = min(max(0, said.duration_ms) / 1000, MOST_S)
            tally.sizes[metrics.STEP_RUN_SECONDS, (attempt.queue,)].append(worked)
        tally.sizes[metrics.STEP_QUEUE_SECONDS, (attempt.queue,)].append(
            max(0.0, (changeset.now - attempt.at) / 1000 - worked)
        )
    if said and (said.cost_usd or said.input_tokens or said.output_tokens or said.cached_tokens):
        _count_model(counts, said, plan.record.head.kind)


def _count_model(counts: Any, said: Metrics, kind: str) -> None:
    """Count what a controller says of its model; a counter only grows, so what is below 0 is nothing."""
    if said.cost_usd and said.cost_usd > 0:
        counts[metrics.COST, (kind,)] += min(said.cost_usd, MOST_USD)
    directions = (("input", said.input_tokens), ("output", said.output_tokens), ("cached", said.cached_tokens))
    for direction, tokens in directions:
        if tokens and tokens > 0:
            counts[metrics.LLM_TOKENS, (direction,)] += min(tokens, MOST_TOKENS)


def _category(step: Step, report: Report) -> str:
    """Name the failure that an outcome was taken for."""
    if step.status.state == StepState.DONE or report.outcome.released:
        return "none"
    return str((step.status.previous or {}).get("category") or "none")


def _row(event: dict[str, Any]) -> str:
    return f"{event['reason']}:{min(event['value'], COLUMNS)}"
