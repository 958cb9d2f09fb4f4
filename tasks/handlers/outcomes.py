"""Outcome -> change: what controllers reported, folded into their plan in the order of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas import codec
from schemas.base import StepState as S
from schemas.base import Verdict
from schemas.outcome import Outcome
from schemas.stored import Attempt
from tasks.base.policy_version import ChangedRule
from tasks.plan.changeset import Change
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Slice, Step
from tasks.plan.unit_of_work import Fold
from tasks.policy import (
    completion,
    expansion,
    graph,
    halt_rules,
    holds,
    operator_changes,
    outcome_verdict,
    pre_steps,
    revision,
    schedule,
    waits,
)
from tasks.policy import halt as halting
from tasks.policy.halt_rules import Halt
from tasks.policy.outcome_verdict import Wrong
from tasks.rules import budget, quota

NEEDS_LEASE = "a controller has claimed the attempt, so that it is ended only with its lease"


class Report(NamedTuple):
    """An outcome with what the entry's fields said beside it; `raw` and `digest` are of its bytes.

    `unknown` is how many of its fields nobody knows.
    """

    outcome: Outcome
    attempt: int | None
    lease: str | None
    raw: bytes
    digest: str
    unknown: int = 0


def apply(view: Slice, reports: Sequence[Report]) -> Change:
    """Fold `reports` into the plan and schedule what may run next; each report gets its verdict, in order."""
    fold = Fold(view)
    for report in reports:
        verdict = outcome_verdict.judge(view, report.outcome.step_id, report.attempt, report.lease, report.digest)
        fold.change.verdicts.append(verdict)
        if verdict is Verdict.APPLIED:
            _take(fold, view.steps[report.outcome.step_id], report)
            expansion.hear(fold)
        else:
            told = {"step_id": report.outcome.step_id, "attempt": report.attempt, "verdict": verdict}
            lacks = verdict is Verdict.REFUSED and outcome_verdict.lacks_lease(
                view, report.outcome.step_id, report.lease
            )
            fold.tell("outcome." + verdict, told, NEEDS_LEASE if lacks else None)
    return advance(fold)


def advance(fold: Fold) -> Change:
    """Carry the ends of steps to their dependents, start what is ready, end the plan if nothing is left."""
    if fold.plan.state not in completion.ENDED or fold.plan.question:
        holds.look(fold)
    if fold.plan.state not in completion.ENDED:
        operator_changes.look(fold)
        graph.propagate(fold)
        expansion.hear(fold)
        schedule.dispatch(fold)
        waits.keep_time(fold)
        budget.warn(fold)
        completion.finish(fold)
    quota.settle(fold)
    return fold.close()


def _take(fold: Fold, step: Step, report: Report) -> None:
    facts = step.facts
    outcome, wrong = outcome_verdict.within_range(fold.plan, report.outcome)
    fold.inputs.append(["outcome", report.attempt, report.lease, codec.raw(report.raw)])
    attempt = fold.end_attempt(step)
    if report.lease is None:
        _rest_on_no_claim(fold, step, attempt)
    used = budget.settle(fold.plan, attempt, outcome.metrics, facts["estimate"])
    quota.lapse(fold, attempt, used)
    if wrong or (outcome.metrics and (outcome.metrics.tokens_used or 0) > used):
        _tell_figures(fold, step, report, used, wrong)
    step.status.digest = report.digest
    fold.answers[step.step_id] = outcome
    failure = outcome_verdict.failure_of(facts, outcome)
    doubt = None if failure or outcome_verdict.is_proved(facts, outcome) else _tell_doubt(fold, step, outcome)
    if doubt and budget.requires_receipts(fold.plan.head):
        failure = outcome_verdict.unproven(doubt)
    failure = failure or expansion.refusal(fold, step, outcome)
    halt = halt_rules.fired(halt_rules.record(fold, step, outcome, failure), failure)
    if failure is None:
        succeed(fold, step)
        step.status.previous = pre_steps.found(facts, outcome)
        if doubt:
            pre_steps.note_doubt(step)
        expansion.hear(fold)  # there may be more to do
        spared = fold.plan.state in PLAN_ENDS or (halt and halt.spares_completed and completion.is_satisfied(fold.plan))
        if halt and not spared:
            halting.halt(fold, halt.rule, halt.reason, halt.evidence)
    else:
        fold.plan.spent["failing_outcomes"] += 1
        step.status.failures += 1
        fail(fold, step, failure, halt, outcome)


def _rest_on_no_claim(fold: Fold, step: Step, attempt: Attempt) -> None:
    """Note that the attempt was unclaimed; who claims it before this is written has it decided anew."""
    if ChangedRule.A_CLAIM_NEEDS_ITS_LEASE.holds(fold.plan):
        lease = fold.view.leases.get(step.step_id)
        fold.change.guards[step.step_id] = lease.renewed if lease else 0
        fold.inputs.append(["unclaimed", step.step_id, attempt.attempt])


def _tell_doubt(fold: Fold, step: Step, outcome: Outcome) -> str | None:
    """Tell of a success on a step with a verification that nothing proves; returns why it is in doubt, if it is."""
    if not ChangedRule.DOUBT_IS_NOTED.holds(fold.plan):
        return None
    doubt = outcome_verdict.doubt(step.facts, outcome, requires_receipts=budget.requires_receipts(fold.plan.head))
    if doubt:
        about = {"step_id": step.step_id, "attempt": step.status.attempt, "verified": False}
        fold.tell("outcome.unverified", about, doubt)
    return doubt


def _tell_figures(fold: Fold, step: Step, report: Report, used: int, wrong: dict[str, Wrong]) -> None:
    """Tell of figures that did not count as they were told, tokens beyond the plan's limit among them."""
    metrics = report.outcome.metrics
    told = metrics.tokens_used if metrics else None
    if told is not None and told > used:
        wrong["tokens_used"] = Wrong(told, used)
    if wrong:
        about = {"step_id": step.step_id, "attempt": step.status.attempt}
        fold.tell("outcome.out_of_range", {**about, "figures": outcome_verdict.told_of(wrong)})


def succeed(fold: Fold, step: Step) -> None:
    """Finish a step whose attempt did what was asked."""
    step.status.previous = None
    halt_rules.forget(fold, step)
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
    elif status.failures > waits.retries(step.facts, failure["category"]):
        halt_rules.forget(fold, step)
        fold.move_step(step, S.FAILED.value, "failed", failure["category"])
        fold.end_step(step)
    else:
        fold.move_step(step, S.ACTIVE.value, "retried", failure["category"])
        if outcome is None or not revision.revise(fold, step, failure, outcome):
            waits.back_off(fold, step, failure["category"])
