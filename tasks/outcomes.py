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
from tasks.policy import (
    budget,
    completion,
    dispatch,
    findings,
    graph,
    halting,
    halts,
    holding,
    judgement,
    quota,
    retry,
    revising,
    tightening,
    unfolding,
    waiting,
    warning,
)
from tasks.policy.halts import Halt
from tasks.policy.lifecycle import PLAN_ENDS
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
            unfolding.hear(fold)
        else:
            told = {"step_id": report.outcome.step_id, "attempt": report.attempt, "verdict": verdict}
            fold.tell("outcome." + verdict, told)
    return advance(fold)


def advance(fold: Fold) -> Change:
    """Carry the ends of steps to their dependents, start what is ready, end the plan if nothing is left."""
    if fold.plan.state not in completion.ENDED or fold.plan.question:
        holding.look(fold)
    if fold.plan.state not in completion.ENDED:
        tightening.look(fold)
        graph.propagate(fold)
        unfolding.hear(fold)
        dispatch.dispatch(fold)
        waiting.keep_time(fold)
        warning.warn(fold)
        completion.finish(fold)
    quota.settle(fold)
    return fold.close()


def _take(fold: Fold, step: Step, report: Report) -> None:
    outcome = report.outcome
    fold.inputs.append(["outcome", report.attempt, report.lease, codec.raw(report.raw)])
    attempt = fold.end_attempt(step)
    used = budget.settle(fold.plan, attempt, outcome.metrics, step.facts["estimate"])
    quota.lapse(fold, attempt, used)
    step.status.digest = report.digest
    fold.answers[step.step_id] = outcome
    failure = judgement.failure_of(step.facts, outcome) or unfolding.refusal(fold, step, outcome)
    halt = halts.fired(halts.record(fold, step, outcome, failure), failure)
    if failure is None:
        succeed(fold, step)
        step.status.previous = findings.found(step.facts, outcome)
        unfolding.hear(fold)  # there may be more to do
        spared = fold.plan.state in PLAN_ENDS or (halt and halt.spares_completed and completion.is_satisfied(fold.plan))
        if halt and not spared:
            halting.halt(fold, halt.rule, halt.reason, halt.evidence)
    else:
        fold.plan.spent["failing_outcomes"] += 1
        step.status.failures += 1
        fail(fold, step, failure, halt, outcome)


def succeed(fold: Fold, step: Step) -> None:
    """Finish a step whose attempt did what was asked."""
    step.status.previous = None
    halts.forget(fold, step)
    fold.move_step(step, S.DONE.value, "done")
    fold.end_step(step)


def fail(fold: Fold, step: Step, failure: dict[str, Any], halt: Halt | None, outcome: Outcome | None = None) -> None:
    """End an attempt that failed: the plan halts, or the step has failed, or it is tried again, perhaps revised.

    Without an `outcome` nobody knows what went wrong, and it is tried as it is.
    """
    status = step.status
    status.previous = failure
    if halt:
        halting.halt(fold, halt.rule, halt.reason, halt.evidence, step)
    elif status.failures > retry.retries(step.facts, failure["category"]):
        halts.forget(fold, step)
        fold.move_step(step, S.FAILED.value, "failed", failure["category"])
        fold.end_step(step)
    else:
        fold.move_step(step, S.ACTIVE.value, "retried", failure["category"])
        if outcome is None or not revising.revise(fold, step, failure, outcome):
            waiting.back_off(fold, step, failure["category"])
