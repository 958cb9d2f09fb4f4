"""Outcome -> change: what controllers reported, folded into their plan in the order of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas import codec
from schemas.base import StepState as S
from schemas.base import Verdict
from schemas.outcome import Outcome
from tasks.change import Change
from tasks.fold import Fold
from tasks.policy import budget, completion, dispatch, graph, judgement, retry
from tasks.view import Slice, Step


class Report(NamedTuple):
    """An outcome with what the entry's fields said beside it; `raw` and `digest` are of its bytes."""

    outcome: Outcome
    attempt: int | None
    lease: str | None
    raw: bytes
    digest: str


def apply(view: Slice, reports: Sequence[Report]) -> Change:
    """Fold `reports` into the plan and schedule what may run next; each report gets its verdict, in order."""
    fold = Fold(view)
    for report in reports:
        verdict = judgement.judge(view, report.outcome.step_id, report.attempt, report.lease, report.digest)
        fold.change.verdicts.append(verdict)
        if verdict is Verdict.APPLIED:
            _take(fold, view.steps[report.outcome.step_id], report)
        else:
            told = {"step_id": report.outcome.step_id, "attempt": report.attempt, "verdict": verdict}
            fold.tell("outcome." + verdict, told)
    return advance(fold)


def advance(fold: Fold) -> Change:
    """Carry the ends of steps to their dependents, start what is ready, end the plan if nothing is left."""
    if fold.plan.state not in completion.ENDED:
        graph.propagate(fold)
        dispatch.dispatch(fold)
        completion.finish(fold)
    return fold.close()


def _take(fold: Fold, step: Step, report: Report) -> None:
    outcome = report.outcome
    fold.inputs.append(["outcome", report.attempt, report.lease, codec.raw(report.raw)])
    attempt = fold.end_attempt(step)
    budget.settle(fold.plan, attempt, outcome.metrics, step.facts["estimate"])
    step.status.digest = report.digest
    failure = judgement.failure_of(step.facts, outcome)
    if failure is None:
        succeed(fold, step)
    else:
        fail(fold, step, failure)


def succeed(fold: Fold, step: Step) -> None:
    """Finish a step whose attempt did what was asked."""
    if fold.plan.halting["consecutive"]:
        fold.plan.halting["consecutive"] = 0
    step.status.previous = None
    fold.move_step(step, S.DONE.value, "done")
    fold.end_step(step)


def fail(fold: Fold, step: Step, failure: dict[str, Any]) -> None:
    """Record a failed attempt; the step waits for its next one, or has failed for good."""
    fold.plan.spent["failing_outcomes"] += 1
    fold.plan.halting["consecutive"] += 1
    retry_or_fail(fold, step, failure, counts=True)


def retry_or_fail(fold: Fold, step: Step, failure: dict[str, Any], *, counts: bool) -> None:
    """Make the step ready again while it has retries left; `counts` says whether the attempt used one up."""
    step.status.failures += counts
    step.status.previous = failure
    if step.status.failures <= retry.retries(step.facts, failure["category"]):
        fold.move_step(step, S.ACTIVE.value, "retried", failure["category"])
        fold.make_ready(step)
    else:
        fold.move_step(step, S.FAILED.value, "failed", failure["category"])
        fold.end_step(step)
