"""The result of a failed attempt: the plan halts, the step fails for good, or it is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from schemas.base import GoalKind, Mode
from schemas.base import StepState as S
from schemas.outcome import Outcome
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import expansion, halt_rules, revision, waits
from tasks.policy.advice_facts import has_retry
from tasks.policy.halt import halt as halt_plan
from tasks.policy.halt_rules import FiredRule, Seen
from tasks.policy.pipeline import AFTER_FAILURE

IN_A_ROW = "consecutive_failures"
ASKED_ABOUT = frozenset({IN_A_ROW, halt_rules.IDENTICAL})
KEPT = {"success", "failure_evidence", "error_message", "failing_tests", "created_files", "growth_kb", "step_id"}
# Halt rules that end a step and not the plan, if the strategy goes on without that step.
PLANNED_ANEW: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        GoalKind.CAMPAIGN: frozenset({halt_rules.IDENTICAL}),
        GoalKind.GAP_REPORT: frozenset({halt_rules.IDENTICAL, IN_A_ROW}),
    }
)


def keep(outcome: Outcome) -> dict[str, Any]:
    """Return the parts of an outcome that `count_failure` needs later."""
    return outcome.model_dump(mode="json", include=KEPT, exclude_none=True)


def count_failure(
    unit: UnitOfWork,
    step: Step,
    failure: dict[str, Any],
    outcome: Outcome,
    began: int = 0,
    *,
    known_flaky: bool = False,
) -> None:
    """Count a failure, and then halt the plan, or end or retry the step; the attempt began at `began` (ms).

    With `known_flaky` only known flaky tests failed. Then the failure counts neither as one in a row nor as a repeated
    one.
    """
    seen = halt_rules.record_failure(unit, step, outcome, failure, began, known_flaky=known_flaky)
    for tell in AFTER_FAILURE:
        tell(unit, step, failure, seen.signature)
    unit.plan.spent["failing_outcomes"] += 1
    step.status.failures += 1
    fail(unit, step, failure, seen, outcome)


def fail(unit: UnitOfWork, step: Step, failure: dict[str, Any], seen: Seen, outcome: Outcome | None = None) -> None:
    """End a failed attempt: the plan halts, the step fails for good, or it is tried again, perhaps revised.

    Without an `outcome` the cause is not known, and the step is tried again without a revision.
    """
    status, is_over = step.status, False
    status.previous = failure
    for halt in halt_rules.all_fired(seen, failure):
        if _is_asked_about(unit, step, halt):
            is_over |= (
                outcome is not None and halt.rule != IN_A_ROW
            )  # other steps of the wave failed, too: this one has its retries
        elif halt.rule in PLANNED_ANEW.get(unit.plan.head.kind, ()) and expansion.goes_on_without(unit, step):
            is_over |= outcome is not None
        else:
            halt_plan(unit, halt.rule, halt.reason, halt.evidence, step)
            return
    failed = unit.plan.counters.failed
    if is_over or not has_retry(step, failure["category"], failed, unit.snapshot.policy):
        unit.end_step(step, S.FAILED.value, "failed", failure["category"])
    else:
        unit.move_step(step, S.ACTIVE.value, "retried", failure["category"])
        if outcome is None or not revision.revise(unit, step, failure, outcome):
            waits.back_off(unit, step, failure["category"])


def _is_asked_about(unit: UnitOfWork, step: Step, halt: FiredRule) -> bool:
    """Return whether a person is asked after this step has failed, so that the rule ends the step and not the plan.

    After the person's answer the count of failures in a row goes on, and the next failure halts the plan.
    """
    return (
        halt.rule in ASKED_ABOUT
        and not (halt.rule == IN_A_ROW and unit.plan.counters.asked)
        and unit.plan.head.kind == GoalKind.REVIEWED_PLAN
        and step.facts["mode"] != Mode.READ_ONLY
    )
