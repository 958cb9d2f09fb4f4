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
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt_rules, revision_table, waits
from tasks.policy.revision_table import Revision
from tasks.toolchain.catalogue import catalogue_of


def revise(unit: UnitOfWork, step: Step, failure: Mapping[str, Any], outcome: Outcome) -> bool:
    """Revise a step that failed and is tried again; returns whether it now waits for a preparation."""
    was = PlannedStep.model_validate(step.facts)
    taken = unit.plan.halting.get("taken", ())
    evidence = revision_table.evidence_of(failure, outcome)
    catalogue = catalogue_of(unit.plan.head.tools, unit.plan.head.policy_version)
    found = revision_table.revise(was, evidence, step.status.failures, taken, catalogue)
    if found is None:
        return False
    unit.plan.revision += 1
    unit.move_plan(P.REVISING.value, "revising", reason=f"{step.step_id} failed with {failure['category']}")
    if found.step.verify != was.verify:
        halt_rules.keep_verification(unit, step)
    unit.rewrite(step, pack_step(found.step))
    if found.before:
        _insert(unit, step, found.before)
    unit.move_plan(P.EXECUTING.value, "revised")
    _tell(unit, step, found, found.diff(was), failure["category"])
    return found.before is not None


def _insert(unit: UnitOfWork, step: Step, before: PlannedStep) -> None:
    """Put `before` into the plan, ready to start in the place of `step`, which waits for it."""
    made = Step(before.step_id, None, StepStatus(0, S.PENDING.value, step.status.index))
    unit.snapshot.steps[made.step_id] = made
    unit.plan.counts[S.PENDING.value] = unit.plan.counts.get(S.PENDING.value, 0) + 1
    unit.rewrite(made, pack_step(before))
    unit.change.specs[f">{made.step_id}:0"] = step.step_id.encode()  # who hears of its end
    unit.make_ready(made)
    step.status.unmet += 1
    if unit.growth:
        unit.grow(ids=[*unit.growth["ids"], made.step_id])


def _tell(unit: UnitOfWork, step: Step, found: Revision, diff: dict[str, Any], category: str) -> None:
    status = step.status
    failed = {"at": unit.at, "step_id": step.step_id, "attempt": status.attempt, "category": category}
    told = {
        "step_id": step.step_id,
        "attempt": status.attempt,
        "revision": unit.plan.revision,
        "policy_version": unit.plan.head.policy_version,
        "rule": " + ".join(found.strategies),
        "value": status.failures,
        "limit": waits.retries(step.facts, category),
        "limit_name": "retry_limit",
        "events": [failed],
        "unblock": f"Finish {found.before.step_id}." if found.before else "Nothing: the next attempt starts by itself.",
        "diff": diff,
    }
    unit.revisions.append({**told, "category": category})
    unit.emit("step.revised", told, category)
