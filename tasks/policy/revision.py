"""A revision applied to its plan: EXECUTING->REVISING->EXECUTING within one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.outcome import Outcome
from schemas.step import PlannedStep, pack_step
from schemas.stored import StepStatus
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import Fold
from tasks.policy import halt_rules, revision_table, waits
from tasks.policy.revision_table import Revision
from tasks.toolchain.catalogue_snapshot import catalogue_of


def revise(fold: Fold, step: Step, failure: Mapping[str, Any], outcome: Outcome) -> bool:
    """Revise a step that failed and is tried again; returns whether it now waits for a preparation."""
    was = PlannedStep.model_validate(step.facts)
    taken = fold.plan.halting.get("taken", ())
    evidence = revision_table.evidence_of(failure, outcome)
    catalogue = catalogue_of(fold.plan.head.tools, fold.plan.head.policy_version)
    found = revision_table.revise(was, evidence, step.status.failures, taken, catalogue)
    if found is None:
        return False
    fold.plan.revision += 1
    fold.move_plan(P.REVISING.value, "revising", reason=f"{step.step_id} failed with {failure['category']}")
    if found.step.verify != was.verify:
        halt_rules.keep_verification(fold, step)
    fold.rewrite(step, pack_step(found.step))
    if found.before:
        _insert(fold, step, found.before)
    fold.move_plan(P.EXECUTING.value, "revised")
    _tell(fold, step, found, found.diff(was), failure["category"])
    return found.before is not None


def _insert(fold: Fold, step: Step, before: PlannedStep) -> None:
    """Put `before` into the plan, ready to start in the place of `step`, which waits for it."""
    made = Step(before.step_id, None, StepStatus(0, S.PENDING.value, step.status.index))
    fold.view.steps[made.step_id] = made
    fold.plan.counts[S.PENDING.value] = fold.plan.counts.get(S.PENDING.value, 0) + 1
    fold.rewrite(made, pack_step(before))
    fold.change.specs[f">{made.step_id}:0"] = step.step_id.encode()  # who hears of its end
    fold.make_ready(made)
    step.status.unmet += 1
    if fold.growth:
        fold.grow(ids=[*fold.growth["ids"], made.step_id])


def _tell(fold: Fold, step: Step, found: Revision, diff: dict[str, Any], category: str) -> None:
    status = step.status
    failed = {"at": fold.at, "step_id": step.step_id, "attempt": status.attempt, "category": category}
    told = {
        "step_id": step.step_id,
        "attempt": status.attempt,
        "revision": fold.plan.revision,
        "policy_version": fold.plan.head.policy_version,
        "rule": " + ".join(found.strategies),
        "value": status.failures,
        "limit": waits.retries(step.facts, category),
        "limit_name": "retry_limit",
        "events": [failed],
        "unblock": f"Finish {found.before.step_id}." if found.before else "Nothing: the next attempt starts by itself.",
        "diff": diff,
    }
    fold.revisions.append({**told, "category": category})
    fold.tell("step.revised", told, category)
