"""Outcomes -> changeset: reports of controllers, applied to their plan in the order of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from schemas import codec
from schemas.base import StepState as S
from schemas.base import Verdict
from tasks.plan.changeset import Changeset
from tasks.plan.end_sum import book_cost
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.report import Report
from tasks.plan.snapshot import Snapshot, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import expansion, failing, halt, halt_rules, outcome_verdict, pipeline, pre_steps, schedule
from tasks.policy.outcome_verdict import Wrong
from tasks.policy.pipeline import Judgement
from tasks.rules import budget

NEEDS_LEASE = "a controller has claimed the attempt, so that it is ended only with its lease"


def apply(snapshot: Snapshot, reports: Sequence[Report]) -> Changeset:
    """Apply `reports` to the plan and schedule the next steps; each report gets its verdict, in order."""
    unit = UnitOfWork(snapshot)
    for report in reports:
        verdict = outcome_verdict.judge(snapshot, report.outcome.step_id, report.attempt, report.lease, report.digest)
        unit.change.verdicts.append(verdict)
        if report.entry:  # so that its sender finds the result
            unit.about["entry"] = report.entry
        if verdict is Verdict.APPLIED:
            _take(unit, snapshot.steps[report.outcome.step_id], report)
            if unit.ends:
                expansion.on_steps_ended(unit)
        else:
            data = {"step_id": report.outcome.step_id, "attempt": report.attempt, "verdict": verdict}
            lacks = verdict is Verdict.REFUSED and outcome_verdict.lacks_lease(
                snapshot, report.outcome.step_id, report.lease
            )
            unit.emit("outcome." + verdict, data, NEEDS_LEASE if lacks else None)
    unit.about.pop("entry", None)  # the following starts belong to no outcome
    return schedule.advance(unit)


def _take(unit: UnitOfWork, step: Step, report: Report) -> None:
    """Settle the attempt that `report` ends, and continue its step."""
    outcome, wrong = outcome_verdict.within_range(report.outcome)
    unit.inputs.append(["outcome", report.attempt, report.lease, codec.raw(report.raw)])
    seen = Judgement(step, outcome, unit.end_attempt(step))
    if report.lease is None:
        # No controller has claimed the attempt; a claim before this commit makes the decision run again.
        lease = unit.snapshot.leases.get(step.step_id)
        unit.change.guards[step.step_id] = lease.renewed if lease else 0
        unit.inputs.append(["unclaimed", step.step_id, seen.attempt.attempt])
    used = _settle(unit, seen)
    if outcome.metrics:
        book_cost(unit.plan, outcome.metrics.cost_usd)
    budget.lapse(unit, seen.attempt, used)
    if wrong or (outcome.metrics and (outcome.metrics.tokens_used or 0) > used):
        _report_figures(unit, step, report, used, wrong)
    step.status.digest = report.digest
    unit.answers[step.step_id] = outcome
    seen.failure = outcome_verdict.failure_of(step.facts, outcome)
    _judge(unit, seen)
    for note in pipeline.ENDED:
        note(unit, seen)


def _judge(unit: UnitOfWork, seen: Judgement) -> None:
    """Continue the step by the result of its attempt."""
    if any(judge(unit, seen) for judge in pipeline.JUDGES):
        if seen.step.status.state == S.DONE:
            unit.change.worked[seen.step.step_id] = True
        return
    for refuse in pipeline.REFUSALS:
        seen.failure = seen.failure or refuse(unit, seen)
    unit.change.worked[seen.step.step_id] = seen.failure is None
    if seen.failure is None:
        _succeed(unit, seen)
    else:
        failing.count_failure(
            unit, seen.step, seen.failure, seen.outcome, seen.attempt.at, known_flaky=seen.known_flaky
        )


def _settle(unit: UnitOfWork, seen: Judgement) -> int:
    """Book the usage of the attempt; returns the booked tokens."""
    booked = next((booked for settle in pipeline.SETTLE if (booked := settle(unit, seen)) is not None), None)
    if booked is None:
        booked = budget.settle(unit.plan, seen.attempt, seen.outcome.metrics, seen.step.facts["estimate"])
    budget.remember_spender(unit.plan, seen.step.step_id, seen.attempt.attempt, *booked)
    return booked[0]


def _succeed(unit: UnitOfWork, seen: Judgement) -> None:
    """End a step after a successful attempt, unless the success halts the plan."""
    step, outcome = seen.step, seen.outcome
    counted = halt_rules.record_success(unit, step, outcome, seen.attempt.at)
    seen.turned, fired = counted.turned, next(halt_rules.all_fired(counted, None), None)
    unit.end_step(step, S.DONE.value, "done", seen.reason)
    step.status.previous = pre_steps.result_of(outcome) if step.facts["inserted_by"] else None
    for note in pipeline.AFTER_END:
        note(unit, seen)
    if unit.ends:  # it may have more steps
        expansion.on_steps_ended(unit)
    spared = unit.plan.state in PLAN_ENDS or (fired and fired.spares_completed and schedule.is_satisfied(unit.plan))
    if fired and not spared:
        halt.halt(unit, fired.rule, fired.reason, fired.evidence)


def _report_figures(unit: UnitOfWork, step: Step, report: Report, used: int, wrong: dict[str, Wrong]) -> None:
    """Emit the figures that did not count as reported, such as tokens beyond the plan's limit."""
    metrics = report.outcome.metrics
    reported = metrics.tokens_used if metrics else None
    if reported is not None and reported > used:
        wrong["tokens_used"] = Wrong(reported, used)
    if wrong:
        about = {"step_id": step.step_id, "attempt": step.status.attempt}
        unit.emit("outcome.out_of_range", {**about, "figures": outcome_verdict.describe_wrong(wrong)})
