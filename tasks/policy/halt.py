"""The early end of a plan: its attempts in flight end, and the halt gets an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from schemas.base import FailureCategory, GoalVerdict
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.times import rfc3339
from tasks.base.errors import NeedsSteps
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.advice import advise
from tasks.rules import budget

# If evidence has such a time, the event of this name happened then.
_BEGINNINGS = MappingProxyType(
    {"ready_at": "plan.ready", "started_at": "plan.executing", "asked_at": "step.approval_requested"}
)

_FAILURES = frozenset(FailureCategory)


def halt(unit: UnitOfWork, rule: str, reason: str, evidence: Mapping[str, Any], failed: Step | None = None) -> None:
    """Halt the plan: every live attempt goes ACTIVE->FAILED->HALTED, and waiting steps keep their state.

    `failed` is the ACTIVE step whose ended attempt halts the plan; it moves first. Raises NeedsSteps if the snapshot
    lacks steps in flight.
    """
    missing = frozenset(unit.snapshot.active) - frozenset(unit.snapshot.steps)
    if missing:
        raise NeedsSteps(missing)
    if unit.plan.question:  # the question needs no answer any more
        unit.plan.question = None
        unit.plan.dirty.add("live")
    if unit.plan.state == P.CREATED:  # it waited for an answer before its creation
        unit.change.settles = GoalVerdict.REJECTED.value
        _reject(unit, rule, reason, _explain(unit, evidence, advise(unit, rule, evidence)), f"{rule}: {reason}")
        return
    unblock = advise(unit, rule, evidence)  # needs the attempts in flight
    if failed:
        _halt_step(unit, failed, rule)
    for step_id in list(unit.snapshot.active):
        step = unit.snapshot.steps[step_id]
        cancel(unit, step)
        _halt_step(unit, step, rule)
    unit.plan.halt = {"rule": rule, "reason": reason, "evidence": _explain(unit, evidence, unblock)}
    unit.plan.dirty.add("halt")
    if unit.plan.state == P.READY:
        unit.move_plan(P.EXECUTING.value, "executing")
    unit.move_plan(P.HALTED.value, "halted", reason=f"{rule}: {reason}")


def reject(unit: UnitOfWork, rule: str, evidence: Mapping[str, Any], reason: str) -> None:
    """End a plan that cannot be created: CREATED->VALIDATING->REJECTED."""
    _reject(unit, "rejected", rule, _explain(unit, evidence, advise(unit, "rejected", evidence, rule)), reason)


def _reject(unit: UnitOfWork, rule: str, cause: str, explained: Mapping[str, Any], reason: str) -> None:
    unit.plan.halt = {"rule": rule, "reason": cause, "evidence": explained}
    unit.plan.dirty.add("halt")
    unit.move_plan(P.VALIDATING.value, "validating")
    unit.move_plan(P.REJECTED.value, "rejected", reason=reason)


def cancel(unit: UnitOfWork, step: Step) -> None:
    """End the live attempt of `step`; its reservation counts as spent, unless its lease shows no claim."""
    lease, attempt = unit.snapshot.leases.get(step.step_id), unit.end_attempt(step)
    claimed = lease is None or bool(lease.claimed)
    if lease and not claimed:
        unit.change.guards[step.step_id] = lease.renewed
        unit.inputs.append(["unclaimed", step.step_id, attempt.attempt])
    budget.settle_without_outcome(unit, step.step_id, attempt, claimed=claimed)
    unit.change.cancelled.add(step.step_id)


def _halt_step(unit: UnitOfWork, step: Step, rule: str) -> None:
    unit.move_step(step, S.FAILED.value, "failed", reason=rule)
    unit.move_step(step, S.HALTED.value, "halted", reason=rule)


def _explain(unit: UnitOfWork, evidence: Mapping[str, Any], unblock: str) -> dict[str, Any]:
    """Add the common parts of an explanation: policy version, value and limit, events, and advice.

    The evidence of a rule with a counter has its own value and limit. Other rules compare a time, or count errors or
    commands.
    """
    if "until" in evidence:
        met = {"value": unit.at, "limit": evidence["until"], "limit_name": "until"}
    elif "errors" in evidence:
        met = {"value": len(evidence["errors"]), "limit": 0, "limit_name": "errors"}
    else:  # there was a command
        met = {"value": 1, "limit": 0, "limit_name": "commands"}
    return {
        **met,
        **{name: value for name, value in evidence.items() if name != "failed"},
        "policy_version": unit.plan.head.policy_version,
        "events": _events(unit, evidence),
        "unblock": unblock,
    }


def _events(unit: UnitOfWork, evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events that led to the halt: a person's command, the start of a clock, or the failures."""
    who = {name: evidence[name] for name in ("step_id", "actor", "command_id") if name in evidence}
    if "command_id" in evidence:
        return [{"at": unit.at, "what": "command.obeyed", **who}]
    for name, what in _BEGINNINGS.items():
        if name in evidence:
            if "questions" in evidence:
                what = "plan.input_requested" if evidence["questions"] else "plan.drafting"
            return [{"at": evidence[name], "what": what, **who}]
    if "released" in evidence:
        what = "step.released"
        return [{"at": each["at"], "what": what, "step_id": each["step_id"]} for each in evidence["released"]]
    if "errors" not in evidence:
        known = (entry for entry in unit.plan.counters.failed if entry[2] in _FAILURES)
        failures = [
            {"at": rfc3339(at), "step_id": step_id, "attempt": attempt, "category": category}
            for step_id, attempt, category, at in evidence.get("failed", known)
        ]
        if failures:
            return failures
    return [{"at": unit.at, **_last_move(unit)}]


def _last_move(unit: UnitOfWork) -> dict[str, Any]:
    """Return the event before the halt: a step's last move, else a command; before the plan was READY, its goal."""
    if "ready" not in unit.plan.times:
        return {"what": "goal.received"}
    step_id, after = next(((step, after) for step, _, after in reversed(unit.moves) if step), ("", ""))
    return {"what": f"step.{after.lower()}", "step_id": step_id} if step_id else {"what": "command.obeyed"}
