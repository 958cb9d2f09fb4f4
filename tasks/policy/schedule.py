"""Continues a plan after every decision: dependents of ended steps, starts of steps, and the end of the plan.

Work that does not fit into one commit is left for the next look at the plan; there is never a silent dead end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from schemas import codec
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.stored import Attempt, PlanRecord
from schemas.times import rfc3339
from tasks.base.policy import AttemptRules
from tasks.plan.changeset import MAX_DISPATCHES, MAX_STEP_CHANGES, Changeset, Dispatch
from tasks.plan.lifecycle import NOT_RUNNING, PLAN_ENDS
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import expansion, halt, halt_rules, operator_changes, pipeline, pre_steps, starts, waits
from tasks.policy.starts import StepCard, Wanted
from tasks.rules import budget

FULL_MS = 1000  # until a step is looked at again whose queue is full

BLOCKED, PENDING, ACTIVE = S.BLOCKED.value, S.PENDING.value, S.ACTIVE.value
DONE, FAILED, SKIPPED = S.DONE.value, S.FAILED.value, S.SKIPPED.value
READY, EXECUTING = P.READY.value, P.EXECUTING.value


def advance(unit: UnitOfWork) -> Changeset:
    """Carry the ends of steps to their dependents, start ready steps, and end the plan if nothing is left."""
    plan = unit.plan
    if plan.state not in NOT_RUNNING or plan.question:
        waits.look_at_holds(unit)
    if plan.state not in NOT_RUNNING:
        for look in pipeline.BEFORE_LOOK:
            look(unit)
        if plan.head.tightened is not None:
            operator_changes.narrow_ready(unit)
        propagate(unit)
        if unit.ends:
            expansion.on_steps_ended(unit)
        dispatch(unit)
        waits.keep_time(unit)
        budget.warn(unit)
        finish(unit)
    for close in pipeline.AT_CLOSE:
        close(unit)
    return unit.close()


def propagate(unit: UnitOfWork) -> None:
    """Carry the end of each step to its dependents, within the limits of snapshot and commit; the rest is left over.

    Earlier left-over work comes first. Skips cascade one level in each commit.
    """
    snapshot = unit.snapshot
    waiting = [*snapshot.todo, *unit.ended_steps]
    left = unit.ended_steps = []  # a step that ends from here on is left over as well
    unit.change.todo_pop = len(snapshot.todo)
    for step_id, number in waiting:
        window = snapshot.windows.get((step_id, number))
        if window is None or len(unit.touched) + len(window.dependents) > MAX_STEP_CHANGES:
            left.append((step_id, number))
            continue
        for dependent in window.dependents:
            if unit.plan.state in PLAN_ENDS:  # the end of another step ended it
                break
            _on_dependency_ended(unit, snapshot.steps[dependent], snapshot.steps[step_id])
        if window.more:
            left.append((step_id, number + 1))
    unit.change.todo_push = left
    unit.change.more = bool(left or snapshot.todo_beyond)


def _on_dependency_ended(unit: UnitOfWork, step: Step, ended: Step) -> None:
    """Note that a dependency of `step` has ended: the step becomes ready, is skipped, or still waits for others.

    A later commit handles the dependents of a skipped step.
    """
    status, satisfied = step.status, ended.status.state == DONE or bool(ended.status.skipped_by)
    if status.state not in (BLOCKED, PENDING) and not (status.state == ACTIVE and status.unmet):
        return
    status.unmet -= 1
    unit.touched[step.step_id] = step
    if status.state == ACTIVE:
        _on_pre_step_ended(unit, step, ended, satisfied=satisfied)
    elif not satisfied:
        status.skipped_by = ""  # an operator may have skipped it, but not its dependencies
        if status.state == BLOCKED:
            unit.move_step(step, PENDING)
        unit.end_step(step, SKIPPED, "skipped", f"dependency {ended.step_id} did not succeed")
    elif status.unmet == 0 and status.state == BLOCKED:
        unit.move_step(step, PENDING)
        if status.skipped_by:
            operator_changes.end(unit, step, f"skipped by {status.skipped_by}")
        else:
            unit.make_ready(step)


def _on_pre_step_ended(unit: UnitOfWork, step: Step, ended: Step, *, satisfied: bool) -> None:
    """Start the next attempt of a step after its pre-step, or fail the step together with its pre-step."""
    if any(judge(unit, step, ended) for judge in pipeline.PRE_STEP_ENDED):
        return
    if not satisfied:
        unit.end_step(step, FAILED, "failed", f"its preparation {ended.step_id} did not succeed")
        return
    if ended.status.state == DONE:
        pre_steps.hand_on(step, ended)
    if step.status.unmet == 0:
        unit.make_ready(step)


def dispatch(unit: UnitOfWork) -> None:
    """Start ready steps in order, within slots, files and budgets; an attempt blocks its files until it ends."""
    plan, snapshot = unit.plan, unit.snapshot
    if plan.state not in (READY, EXECUTING) or len(plan.backoffs) >= waits.MAX_CROWD:
        return
    if unit.is_stopped:
        for choose in pipeline.WHILE_STOPPED:
            _start_steps(unit, choose(unit), 1)
        return
    if not unit.ready:
        return
    slots, started = plan.head.limits["max_parallel"] or 1, unit.change.dispatches
    _start_steps(unit, sorted(unit.ready.values(), key=lambda step: step.status.index), MAX_DISPATCHES)
    if len(snapshot.active) < slots and (snapshot.ready_beyond or len(started) >= MAX_DISPATCHES):
        unit.change.more |= bool(started)  # the next look reads the rest of the queue
        unit.change.wider = not started


def _start_steps(unit: UnitOfWork, steps: Sequence[Step], most: int) -> None:
    """Start at most `most` of the steps, in their order."""
    active, started = unit.snapshot.active, unit.change.dispatches
    room = min((unit.plan.head.limits["max_parallel"] or 1) - len(active), most - len(started))
    busy = {path for attempt in active.values() for path in attempt.files}
    for step, card in starts.fit(_startable(unit, steps), busy, room):
        held = _allowance(unit, card)
        if held is None:
            break
        _start(unit, step, card, held)


def _startable(unit: UnitOfWork, steps: Sequence[Step]) -> Iterator[Wanted]:
    """Yield the steps that may start now, unless an attempt in flight blocks one of their files."""
    tightened = unit.plan.head.tightened
    for step in steps:
        if not unit.is_delivering and budget.first_exhausted(unit.plan):  # a delivery uses none
            return
        if step.spec is None or (tightened is not None and not operator_changes.fits(step, tightened)):
            unit.change.more = True  # it starts in a next look at the queue
        elif _may_start(unit, step):
            yield step, starts.card_of(step)


def _allowance(unit: UnitOfWork, card: StepCard) -> int | None:
    """Return how many tokens an attempt may reserve; None if it cannot start now."""
    if unit.is_delivering:
        return 0
    wanted = starts.tokens_of(card, _rules(unit, card))
    return budget.allowance(unit, budget.available(unit.plan, "tokens", wanted))


def _rules(unit: UnitOfWork, card: StepCard) -> AttemptRules:
    return unit.snapshot.policy.attempts[card.facts["risk_level"]]


def _may_start(unit: UnitOfWork, step: Step) -> bool:
    """Return whether no file, no person and no paused or full queue keeps `step` back; a delivery needs no approval."""
    if any(keeps_back(unit, step) for keeps_back in pipeline.BEFORE_START):
        return False
    queue = step.facts["queue"]
    if queue in unit.snapshot.paused_queues:
        unit.kept[step.step_id] = queue
        if until := unit.snapshot.paused_queues[queue].until:
            unit.wake_at(until)
        return False
    if unit.plan.head.approvals and not unit.is_delivering and waits.await_approval(unit, step):
        return False
    if queue in unit.snapshot.full:
        unit.wake_at(unit.snapshot.now + FULL_MS)
        unit.full.add(queue)
        return False
    return True


def _start(unit: UnitOfWork, step: Step, card: StepCard, tokens: int) -> None:
    plan, status, now = unit.plan, step.status, unit.snapshot.now
    del unit.ready[step.step_id]
    if plan.state == READY:
        plan.times["started"] = now
        unit.move_plan(EXECUTING, "executing")
    until = plan.delivery.due if unit.is_delivering else None
    patch_cycles = budget.available(plan, "patch_cycles", card.patch_cycles)
    attempt = starts.begin(unit.snapshot, step, card, tokens, patch_cycles, now, until)
    unit.touched[step.step_id] = step
    if status.state == PENDING:
        unit.move_step(step, ACTIVE, "started")
    else:
        unit.emit("step.restarted", {"step_id": step.step_id, "attempt": status.attempt})
    unit.change.dispatches.append(Dispatch(step.step_id, attempt, _spec(unit, step, card, attempt)))
    unit.wake_at(now + starts.SILENT_MS)


def _spec(unit: UnitOfWork, step: Step, card: StepCard, attempt: Attempt) -> bytes:
    context = {**unit.plan.head.context, "previous_failure": step.status.previous}
    for give in pipeline.SPEC_FIELDS:
        context |= give(unit, step) or {}
    given = next((found for give in pipeline.INPUT if (found := give(unit, step))), None)
    return starts.write_spec(
        unit.snapshot,
        step.step_id,
        card,
        attempt,
        _rules(unit, card),
        codec.dumps(context).decode(),
        starts.spec_end(unit.snapshot),
        f',"input":{codec.dumps(given).decode()}' if given else "",
    )


def is_satisfied(plan: PlanRecord, ending: int = 0) -> bool:
    """Return whether every step is done, was skipped by an operator, or failed and was replaced.

    `ending` is the number of further steps that count as done.
    """
    done: int = plan.counts.get(DONE, 0) + ending + plan.structure.skipped
    return done + plan.structure.replaced == sum(plan.counts.values())


def finish(unit: UnitOfWork) -> None:
    """End a plan that has nothing in flight, ready or left over: COMPLETED if all steps are satisfied, else HALTED."""
    plan = unit.plan
    if plan.state not in (READY, EXECUTING) or unit.snapshot.active or unit.change.more:
        return
    if unit.ready:
        if not (unit.is_stopped or unit.is_delivering):
            _halt_if_exhausted(unit)
        return
    if plan.waits or plan.backoffs or plan.question or any(plan.claims.waits):  # steps: a held plan may have none left
        return
    if unit.snapshot.ready_beyond:  # the queue has more steps than those read
        unit.change.more = True
        return
    if plan.state == READY:  # an operator removed all of it before its first step
        plan.times["started"] = unit.snapshot.now
        unit.move_plan(EXECUTING, "executing")
    if is_satisfied(plan):
        if any(goes_on(unit) for goes_on in pipeline.SATISFIED):
            unit.change.more = plan.state not in PLAN_ENDS  # it starts in a next look
            return
        told = plan.delivery.outcome
        unit.move_plan(P.COMPLETED.value, "completed", told.pop("undelivered", None), told)
    elif unit.strategy_state and expansion.rescue(unit):
        unit.change.more = plan.state not in PLAN_ENDS  # its new steps start in a next look
    else:
        unit.move_plan(P.REVISING.value, "revising", reason="steps failed and nothing else can run")
        halt.halt(unit, "cannot_revise", *halt_rules.describe_dead_end(unit))


def _halt_if_exhausted(unit: UnitOfWork) -> None:
    plan = unit.plan
    name = budget.first_exhausted(plan)
    if name is None:
        return
    evidence: dict[str, Any] = {
        "value": plan.spent[name],
        "limit": plan.limits[name],
        "limit_name": name,
        "spent": plan.spent,
    }
    if name != "failing_outcomes":  # it was used up by all work, not only by failures
        evidence["spent_by"] = budget.spenders_of(plan, name)
        evidence["started_at"] = rfc3339(plan.times.get("started", plan.times["ready"]))
    halt.halt(unit, "budget", f"the budget of {name} is used up", evidence)
