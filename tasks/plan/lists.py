"""The lists of plans in which a plan stands, so that those who ask for some plans need not look at all."""

from __future__ import annotations

from schemas.stored import PlanRecord
from tasks.plan.lifecycle import PLAN_ENDS

WAITING = "waiting"


def of_state(state: str) -> str:
    """Name the list of the plans in a state."""
    return f"state:{state}"


def of_live(state: str, kind: str) -> str:
    """Name the list of the plans of a kind that are in a state which is no end."""
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
    """Whether the plan, or a step of it, waits for an answer or an approval."""
    return bool(plan.question or plan.waits) and plan.state not in PLAN_ENDS


def lists_of(plan: PlanRecord) -> list[str]:
    """Name every list that the plan is in."""
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
