"""Outcomes -> changeset: what controllers reported, applied to their plan in the order of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from schemas import codec
from schemas.base import StepState as S
from schemas.base import Verdict
from schemas.outcome import Outcome
from schemas.stored import Attempt
from tasks.plan.changeset import Changeset
from tasks.plan.end_sum import book_cost
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.report import Report
from tasks.plan.snapshot import Snapshot, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import (
    answers,
    baseline,
    delivery,
    expansion,
    failing,
    flaky_tests,
    halt_rules,
    handing_back,
    no_change,
    outcome_verdict,
    pre_steps,
    red_checks,
    schedule,
)
from tasks.policy.halt import halt as halt_plan
from tasks.policy.halt_rules import FiredRule
from tasks.policy.handing_back import HandedBack
from tasks.policy.outcome_verdict import Wrong
from tasks.rules import budget

NEEDS_LEASE = "a controller has claimed the attempt, so that it is ended only with its lease"


def apply(snapshot: Snapshot, reports: Sequence[Report]) -> Changeset:
    """Apply `reports` to the plan and schedule what may run next; each report gets its verdict, in order."""
    unit = UnitOfWork(snapshot)
    for report in reports:
        verdict = outcome_verdict.judge(snapshot, report.outcome.step_id, report.attempt, report.lease, report.digest)
        unit.change.verdicts.append(verdict)
        if report.entry:  # so that whoever sent it finds what became of it
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
    unit.about.pop("entry", None)  # what is started now is no outcome's
    return schedule.advance(unit)


def _take(unit: UnitOfWork, step: Step, report: Report) -> None:
    """Settle the attempt that `report` ends, and take its step on."""
    outcome, wrong = outcome_verdict.within_range(report.outcome)
    unit.inputs.append(["outcome", report.attempt, report.lease, codec.raw(report.raw)])
    attempt = unit.end_attempt(step)
    if report.lease is None:
        # Nobody has claimed the attempt; whoever does before this is written has it decided anew.
        lease = unit.snapshot.leases.get(step.step_id)
        unit.change.guards[step.step_id] = lease.renewed if lease else 0
        unit.inputs.append(["unclaimed", step.step_id, attempt.attempt])
    back = handing_back.recognize(unit, step, attempt, outcome) if outcome.released else None
    used = _settle(unit, step, attempt, outcome, back)
    if outcome.metrics:
        book_cost(unit.plan, outcome.metrics.cost_usd)
    budget.lapse(unit, attempt, used)
    if wrong or (outcome.metrics and (outcome.metrics.tokens_used or 0) > used):
        _report_figures(unit, step, report, used, wrong)
    step.status.digest = report.digest
    if back:
        handing_back.take(unit, step, back)
    else:
        handing_back.forget(unit, step)
        if unit.is_delivering:
            delivery.judge(unit, step, outcome)
        else:
            _judge(unit, step, outcome, attempt.at)


def _settle(unit: UnitOfWork, step: Step, attempt: Attempt, outcome: Outcome, back: HandedBack | None) -> int:
    """Book what the attempt used; returns the tokens booked."""
    cycles, calls = (spent := unit.plan.spent)["patch_cycles"], spent["tool_calls"]
    if back:
        used = handing_back.settle(unit, back, outcome)
    else:
        used = budget.settle(unit.plan, attempt, outcome.metrics, step.facts["estimate"])
    cycles, calls = spent["patch_cycles"] - cycles, spent["tool_calls"] - calls
    budget.remember_spender(unit.plan, step.step_id, attempt.attempt, used, cycles, calls)
    return used


def _judge(unit: UnitOfWork, step: Step, outcome: Outcome, began: int) -> None:
    """Say whether what the attempt did, which `began` then (ms), holds; count it, and take its step on."""
    facts = step.facts
    unit.answers[step.step_id] = outcome
    failure = outcome_verdict.failure_of(facts, outcome)
    excused = False
    doubt = None if failure or outcome_verdict.is_proved(facts, outcome) else _report_doubt(unit, step, outcome)
    if doubt and budget.requires_receipts(unit.plan.head):
        failure = outcome_verdict.failure_without_proof(doubt)
    at_once = failure is not None and failure["category"] in halt_rules.AT_ONCE
    if unit.strategy_state and not at_once and expansion.block(unit, step, outcome):
        return
    if facts["inserted_by"] and baseline.is_baseline(facts) and baseline.end_baseline(unit, step, outcome, failure):
        return
    known_flaky = flaky_tests.is_known(unit, step, outcome, failure)
    if failure is not None:
        if flaky_tests.run_again(unit, step, failure, known=known_flaky):
            return
        if baseline.awaits_base(unit, step, outcome, failure):
            return
        failure, excused = baseline.excuse(unit, step, outcome, failure)
    if failure is None and unit.strategy_state:
        failure = expansion.refusal(unit, step, outcome)
    if failure is None and (facts["piece_of"] or not outcome.touched_files):
        failure = no_change.failure_of(unit, step, outcome, passed=doubt is None)
    if failure is None:
        seen = halt_rules.record(unit, step, outcome, None, began)
        flaky_tests.learn(unit, step, turned=seen.turned, excused=excused)
        _succeed(unit, step, outcome, halt_rules.first_fired(seen, None), doubt, excused=excused)
    else:
        failing.count_failure(unit, step, failure, outcome, began, known_flaky=known_flaky)


def _succeed(
    unit: UnitOfWork, step: Step, outcome: Outcome, halt: FiredRule | None, doubt: str | None, *, excused: bool
) -> None:
    """Finish a step whose attempt did what was asked, unless that is what halts the plan."""
    reason = "baseline" if excused else None
    if not (excused or outcome.touched_files):
        reason = no_change.reason_of(step.facts, outcome, passed=doubt is None)
    unit.end_step(step, S.DONE.value, "done", reason)
    step.status.previous = pre_steps.result_of(outcome) if step.facts["inserted_by"] else None
    answers.keep(unit, step, outcome.output)
    if budget.DELIVERY_WAIT_S in unit.plan.limits:
        delivery.note_done(unit, step, outcome, verified=doubt is None and not excused)
    red_checks.note_created(unit, step, outcome)
    if doubt:
        outcome_verdict.note_doubt(step)
    if unit.ends:  # there may be more to do
        expansion.on_steps_ended(unit)
    spared = unit.plan.state in PLAN_ENDS or (halt and halt.spares_completed and schedule.is_satisfied(unit.plan))
    if halt and not spared:
        halt_plan(unit, halt.rule, halt.reason, halt.evidence)


def _report_doubt(unit: UnitOfWork, step: Step, outcome: Outcome) -> str | None:
    """Emit that nothing proves a success on a step with a verification; returns why it is in doubt, if it is."""
    doubt = outcome_verdict.doubt(step.facts, outcome, requires_receipts=budget.requires_receipts(unit.plan.head))
    if doubt:
        about = {"step_id": step.step_id, "attempt": step.status.attempt, "verified": False}
        unit.emit("outcome.unverified", about, doubt)
    return doubt


def _report_figures(unit: UnitOfWork, step: Step, report: Report, used: int, wrong: dict[str, Wrong]) -> None:
    """Emit the figures that did not count as they were reported, tokens beyond the plan's limit among them."""
    metrics = report.outcome.metrics
    reported = metrics.tokens_used if metrics else None
    if reported is not None and reported > used:
        wrong["tokens_used"] = Wrong(reported, used)
    if wrong:
        about = {"step_id": step.step_id, "attempt": step.status.attempt}
        unit.emit("outcome.out_of_range", {**about, "figures": outcome_verdict.describe_wrong(wrong)})
