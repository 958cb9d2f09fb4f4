"""The moves of steps and plans from state to state, as tables. Every other move raises IllegalTransition."""

from __future__ import annotations

from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.stored import PlanRecord
from tasks.base.errors import IllegalTransition

STEP_MOVES = {
    (S.PENDING.value, S.ACTIVE.value): "start_step",
    (S.PENDING.value, S.SKIPPED.value): "dependency failed",
    (S.PENDING.value, S.BLOCKED.value): "dependency not complete",
    (S.BLOCKED.value, S.PENDING.value): "dependency completed",
    (S.ACTIVE.value, S.DONE.value): "success",
    (S.ACTIVE.value, S.ACTIVE.value): "failure, retries remain",
    (S.ACTIVE.value, S.FAILED.value): "failure, none left",
    (S.FAILED.value, S.HALTED.value): "halt condition",
}

PLAN_MOVES = {
    (P.CREATED.value, P.VALIDATING.value): "plan generated",
    (P.VALIDATING.value, P.REJECTED.value): "validation failed",
    (P.VALIDATING.value, P.READY.value): "validation passed",
    (P.READY.value, P.EXECUTING.value): "first step started",
    (P.EXECUTING.value, P.EXECUTING.value): "step completed, next step",
    (P.EXECUTING.value, P.REVISING.value): "step failed, revision needed",
    (P.EXECUTING.value, P.COMPLETED.value): "all steps done",
    (P.EXECUTING.value, P.HALTED.value): "halt condition",
    (P.REVISING.value, P.EXECUTING.value): "plan revised",
    (P.REVISING.value, P.HALTED.value): "cannot revise",
}

STEP_ENDS = frozenset({S.DONE.value, S.FAILED.value, S.SKIPPED.value})  # HALTED is the end of its plan
PLAN_ENDS = frozenset({P.REJECTED.value, P.COMPLETED.value, P.HALTED.value})
NOT_RUNNING = PLAN_ENDS | {P.CREATED.value, P.VALIDATING.value}  # nothing starts in these, yet or any more
WAITING = "waiting"
DRAFT = "draft"  # the kind of a question to a drafter, which no person answers


def check_step(step_id: str, before: str, after: str) -> None:
    """Raise IllegalTransition if the table does not contain this move of a step."""
    if (before, after) not in STEP_MOVES:
        raise IllegalTransition(f"step {step_id} cannot go {before} -> {after}")


def check_plan(plan_id: str, before: str, after: str) -> None:
    """Raise IllegalTransition if the table does not contain this move of a plan."""
    if (before, after) not in PLAN_MOVES:
        raise IllegalTransition(f"plan {plan_id} cannot go {before} -> {after}")


def of_state(state: str) -> str:
    """Name the list of the plans in a state."""
    return f"state:{state}"


def of_live(state: str, kind: str) -> str:
    """Return the name of the list of a kind's plans in this state, which is not the end of a plan."""
    return f"live:{state}:{kind}"


def of_tenant(tenant: str) -> str:
    """Name the list of a tenant's plans."""
    return f"tenant:{tenant}"


def of_repository(repo: str) -> str:
    """Name the list of a repository's plans."""
    return f"repo:{repo}"


def of_rule(rule: str) -> str:
    """Name the list of the plans that a halt rule ended."""
    return f"rule:{rule}"


def is_waiting(plan: PlanRecord) -> bool:
    """Return whether the plan waits for an answer of a person, or a step of it for an approval."""
    asks = plan.question is not None and plan.question["kind"] != DRAFT
    return (asks or bool(plan.waits)) and plan.state not in PLAN_ENDS


def lists_of(plan: PlanRecord) -> list[str]:
    """Return the names of all lists that contain the plan."""
    found = [of_state(plan.state), of_tenant(plan.head.tenant)]
    if plan.head.repo:
        found.append(of_repository(plan.head.repo))
    if plan.state not in PLAN_ENDS:
        found.append(of_live(plan.state, plan.head.kind))
    if plan.halt:
        found.append(of_rule(plan.halt["rule"]))
    if is_waiting(plan):
        found.append(WAITING)
    return found
