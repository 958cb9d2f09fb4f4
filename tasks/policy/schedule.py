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
from tasks.plan.unit_of_work import Fold
from tasks.policy import expansion, operator_changes, waits
from tasks.rules import budget, quota
from tasks.rules.risk import RISK

QUEUED_MS = 3_600_000  # from dispatch: an attempt that no controller ever claims
SILENT_MS = 60_000  # from the claim or the last renewal
RUNNING_MARGIN_MS = 900_000  # from the claim, beside the timeouts of the verification
FULL_MS = 1000  # until a step is looked at again whose queue is full

PENDING, ACTIVE = S.PENDING.value, S.ACTIVE.value
READY, EXECUTING = P.READY.value, P.EXECUTING.value


def dispatch(fold: Fold) -> None:
    """Start ready steps in order while slots, files and budgets allow; an attempt holds its files until it ends."""
    view, plan, started = fold.view, fold.plan, fold.change.dispatches
    if not fold.ready or fold.is_stopped or plan.state not in (READY, EXECUTING):
        return
    slots = plan.head.limits["max_parallel"] or 1
    busy = {path for attempt in view.active.values() for path in attempt.files}
    for step in sorted(fold.ready.values(), key=_place):
        if len(view.active) >= slots or len(started) >= MAX_DISPATCHES or budget.exhausted(plan):
            break
        if step.spec is None or not operator_changes.fits(fold, step):  # it starts in a next look at the queue
            fold.change.more = True
        elif _may_start(fold, step) and busy.isdisjoint((facts := step.facts)["allowed_files"]):
            most = quota.allowed(fold, budget.available(plan, "tokens", facts["estimate"]["tokens"]))
            if most is None:
                break
            _start(fold, step, most)
            busy.update(facts["allowed_files"])
    if len(view.active) < slots and (view.ready_beyond or len(started) >= MAX_DISPATCHES):
        fold.change.more |= bool(started)  # the rest of the queue is read in a next look
        fold.change.wider = not started


def _place(step: Step) -> int:
    return step.status.index


def _may_start(fold: Fold, step: Step) -> bool:
    """Whether neither a person nor a full queue keeps `step` back."""
    if waits.needs_approval(fold, step):
        waits.ask(fold, step)
        return False
    if step.facts["queue"] in fold.view.full:
        fold.wake_at(fold.view.now + FULL_MS)
        fold.full.add(step.facts["queue"])
        return False
    return True


def _start(fold: Fold, step: Step, most: int) -> None:
    del fold.ready[step.step_id]
    if fold.plan.state == READY:
        fold.plan.times["started"] = fold.view.now
        fold.move_plan(EXECUTING, "executing")
    step.status.attempt += 1
    fold.touched[step.step_id] = step
    if step.status.state == PENDING:
        fold.move_step(step, ACTIVE, "started")
    else:
        fold.tell("step.restarted", {"step_id": step.step_id, "attempt": step.status.attempt})
    attempt = _attempt(fold, step, most)
    fold.view.active[step.step_id] = attempt
    fold.change.dispatches.append(Dispatch(step.step_id, attempt, _spec(fold, step, attempt)))
    fold.wake_at(fold.view.now + SILENT_MS)


def _attempt(fold: Fold, step: Step, most: int) -> Attempt:
    facts, number = step.facts, step.status.attempt
    held, patch_cycles = budget.reserve(fold.plan, facts["estimate"], most)
    running = RUNNING_MARGIN_MS + 1000 * sum([tool["timeout_s"] for tool in facts["verify_tools"]])
    deadline = fold.view.now + max(QUEUED_MS, running)
    lease = _lease(fold.plan.head.seed, step.step_id, number)
    held_for = facts["queue"], facts["allowed_files"], held, patch_cycles
    return Attempt(number, lease, *held_for, fold.view.now, deadline, waits.rested_for(fold))


def _lease(seed: str, step_id: str, attempt: int) -> str:
    """Make the attempt's token from the plan's secret seed: not guessable, yet the same in every fold of the log."""
    return hashlib.blake2b(f"{seed}|{step_id}|{attempt}".encode(), digest_size=12).hexdigest()


def _spec(fold: Fold, step: Step, attempt: Attempt) -> bytes:
    view, facts = fold.view, step.facts
    return codec.extend(
        step.spec or b"",
        {
            **step.omitted,
            **({"input": given} if (given := expansion.input_for(fold, step)) else {}),
            "plan_id": view.plan_id,
            "attempt": attempt.attempt,
            "context": {**fold.plan.head.context, "previous_failure": step.status.previous},
            "limits": {
                "max_diff_lines": RISK[facts["risk_level"]].max_diff_lines,
                "tokens": attempt.tokens,
                "patch_cycles": attempt.patch_cycles,
            },
            "budget_remaining": budget.remaining_fraction(fold.plan),
            "lease": attempt.lease,
            "lease_key": view.lease_prefix + step.step_id,
            "deadline": rfc3339(attempt.deadline),
            "reply_to": view.reply_to,
        },
    )
