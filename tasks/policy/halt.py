"""The end of a plan before its time: what happens to the attempts in flight, and how it is explained."""

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

# Where evidence has such a time, it began then, with the event of this name.
_BEGINNINGS = MappingProxyType(
    {"ready_at": "plan.ready", "started_at": "plan.executing", "asked_at": "step.approval_requested"}
)

_FAILURES = frozenset(FailureCategory)


def halt(unit: UnitOfWork, rule: str, reason: str, evidence: Mapping[str, Any], failed: Step | None = None) -> None:
    """Halt the plan: every live attempt goes ACTIVE->FAILED->HALTED, waiting steps keep their state.

    `failed` is an ACTIVE step whose ended attempt is what halts the plan; it goes that way first. Raises NeedsSteps
    where the snapshot lacks steps that are in flight.
    """
    missing = frozenset(unit.snapshot.active) - frozenset(unit.snapshot.steps)
    if missing:
        raise NeedsSteps(missing)
    if unit.plan.question:  # nobody has to answer any more
        unit.plan.question = None
        unit.plan.dirty.add("live")
    if unit.plan.state == P.CREATED:  # it waited for an answer before it could be made
        unit.change.settles = GoalVerdict.REJECTED.value
        _reject(unit, rule, reason, _explain(unit, evidence, advise(unit, rule, evidence)), f"{rule}: {reason}")
        return
    unblock = advise(unit, rule, evidence)  # by what is in flight now
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
    """End a plan that cannot be made: CREATED->VALIDATING->REJECTED."""
    _reject(unit, "rejected", rule, _explain(unit, evidence, advise(unit, "rejected", evidence, rule)), reason)


def _reject(unit: UnitOfWork, rule: str, cause: str, explained: Mapping[str, Any], reason: str) -> None:
    unit.plan.halt = {"rule": rule, "reason": cause, "evidence": explained}
    unit.plan.dirty.add("halt")
    unit.move_plan(P.VALIDATING.value, "validating")
    unit.move_plan(P.REJECTED.value, "rejected", reason=reason)


def cancel(unit: UnitOfWork, step: Step) -> None:
    """End the live attempt of `step`. What it held is spent, unless the snapshot shows that nobody claimed it."""
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
    """Add what every end is explained by: version, values and limit, events, what would let the plan go on.

    A rule that counts something has its own values and limit; any other one met a time, or anything at all.
    """
    if "until" in evidence:
        met = {"value": unit.at, "limit": evidence["until"], "limit_name": "until"}
    elif "errors" in evidence:
        met = {"value": len(evidence["errors"]), "limit": 0, "limit_name": "errors"}
    else:  # there was a command at all
        met = {"value": 1, "limit": 0, "limit_name": "commands"}
    return {
        **met,
        **{name: value for name, value in evidence.items() if name != "failed"},
        "policy_version": unit.plan.head.policy_version,
        "events": _events(unit, evidence),
        "unblock": unblock,
    }


def _events(unit: UnitOfWork, evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List what led to it: what a person did or left undone, when the clock began, else the failures."""
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
    """Name the end of a step that a running plan was to go on from, else the answer; before that there is the goal."""
    if "ready" not in unit.plan.times:
        return {"what": "goal.received"}
    step_id, after = next(((step, after) for step, _, after in reversed(unit.moves) if step), ("", ""))
    return {"what": f"step.{after.lower()}", "step_id": step_id} if step_id else {"what": "command.obeyed"}
