"""Which ready steps start now, and what their controllers are told."""

from __future__ import annotations

import hashlib

from schemas import codec
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.stored import Attempt
from schemas.times import rfc3339
from tasks.plan.changeset import MAX_DISPATCHES, Dispatch
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import expansion, operator_changes, waits
from tasks.rules import budget, quota
from tasks.rules.risk import RISK

QUEUED_MS = 3_600_000  # from dispatch: an attempt that no controller ever claims
SILENT_MS = 60_000  # from the claim or the last renewal
RUNNING_MARGIN_MS = 900_000  # from the claim, beside the timeouts of the verification
FULL_MS = 1000  # until a step is looked at again whose queue is full

PENDING, ACTIVE = S.PENDING.value, S.ACTIVE.value
READY, EXECUTING = P.READY.value, P.EXECUTING.value


def dispatch(unit: UnitOfWork) -> None:
    """Start ready steps in order while slots, files and budgets allow; an attempt holds its files until it ends."""
    snapshot, plan, started = unit.snapshot, unit.plan, unit.change.dispatches
    if not unit.ready or unit.is_stopped or plan.state not in (READY, EXECUTING):
        return
    slots = plan.head.limits["max_parallel"] or 1
    busy = {path for attempt in snapshot.active.values() for path in attempt.files}
    for step in sorted(unit.ready.values(), key=_place):
        if len(snapshot.active) >= slots or len(started) >= MAX_DISPATCHES or budget.first_exhausted(plan):
            break
        if step.spec is None or not operator_changes.fits(unit, step):  # it starts in a next look at the queue
            unit.change.more = True
        elif _may_start(unit, step) and busy.isdisjoint((facts := step.facts)["allowed_files"]):
            most = quota.allowance(unit, budget.available(plan, "tokens", facts["estimate"]["tokens"]))
            if most is None:
                break
            _start(unit, step, most)
            busy.update(facts["allowed_files"])
    if len(snapshot.active) < slots and (snapshot.ready_beyond or len(started) >= MAX_DISPATCHES):
        unit.change.more |= bool(started)  # the rest of the queue is read in a next look
        unit.change.wider = not started


def _place(step: Step) -> int:
    return step.status.index


def _may_start(unit: UnitOfWork, step: Step) -> bool:
    """Whether neither a person nor a full queue keeps `step` back."""
    if waits.needs_approval(unit, step):
        waits.ask(unit, step)
        return False
    if step.facts["queue"] in unit.snapshot.full:
        unit.wake_at(unit.snapshot.now + FULL_MS)
        unit.full.add(step.facts["queue"])
        return False
    return True


def _start(unit: UnitOfWork, step: Step, most: int) -> None:
    del unit.ready[step.step_id]
    if unit.plan.state == READY:
        unit.plan.times["started"] = unit.snapshot.now
        unit.move_plan(EXECUTING, "executing")
    step.status.attempt += 1
    unit.touched[step.step_id] = step
    if step.status.state == PENDING:
        unit.move_step(step, ACTIVE, "started")
    else:
        unit.emit("step.restarted", {"step_id": step.step_id, "attempt": step.status.attempt})
    attempt = _attempt(unit, step, most)
    unit.snapshot.active[step.step_id] = attempt
    unit.change.dispatches.append(Dispatch(step.step_id, attempt, _spec(unit, step, attempt)))
    unit.wake_at(unit.snapshot.now + SILENT_MS)


def _attempt(unit: UnitOfWork, step: Step, most: int) -> Attempt:
    facts, number = step.facts, step.status.attempt
    held, patch_cycles = budget.reserve(unit.plan, facts["estimate"], most)
    running = RUNNING_MARGIN_MS + 1000 * sum([tool["timeout_s"] for tool in facts["verify_tools"]])
    deadline = unit.snapshot.now + max(QUEUED_MS, running)
    lease = _lease(unit.plan.head.seed, step.step_id, number)
    held_for = facts["queue"], facts["allowed_files"], held, patch_cycles
    return Attempt(number, lease, *held_for, unit.snapshot.now, deadline, waits.rested_for(unit))


def _lease(seed: str, step_id: str, attempt: int) -> str:
    """Make the attempt's token from the plan's secret seed: not guessable, yet the same from the same log."""
    return hashlib.blake2b(f"{seed}|{step_id}|{attempt}".encode(), digest_size=12).hexdigest()


def _spec(unit: UnitOfWork, step: Step, attempt: Attempt) -> bytes:
    snapshot, facts = unit.snapshot, step.facts
    return codec.extend(
        step.spec or b"",
        {
            **step.omitted,
            **({"input": given} if (given := expansion.input_for(unit, step)) else {}),
            "plan_id": snapshot.plan_id,
            "attempt": attempt.attempt,
            "context": {**unit.plan.head.context, "previous_failure": step.status.previous},
            "limits": {
                "max_diff_lines": RISK[facts["risk_level"]].max_diff_lines,
                "tokens": attempt.tokens,
                "patch_cycles": attempt.patch_cycles,
            },
            "budget_remaining": budget.remaining_fraction(unit.plan),
            "lease": attempt.lease,
            "lease_key": snapshot.lease_prefix + step.step_id,
            "deadline": rfc3339(attempt.deadline),
            "reply_to": snapshot.reply_to,
        },
    )
