"""Starts and ends the waits of a plan and its steps, and stops the wall clock meanwhile.

A bulk command, a day budget, a full server or files of other plans hold the whole plan. A step may wait for an approval
or for the time of its retry. A plan may wait for the answer of a person or a drafter. It stores the reason of a hold
for its log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from schemas.stored import PlanRecord
from schemas.times import DAY_MS, rfc3339
from tasks.base.errors import NeedsSteps
from tasks.base.policy import BACKOFF_MS, HANDED_BACK, HANDED_BACK_MS
from tasks.plan.lifecycle import DRAFT
from tasks.plan.snapshot import Clocks, Step
from tasks.plan.unit_of_work import PAUSED, UnitOfWork
from tasks.policy import halt
from tasks.policy.pipeline import HOLDS
from tasks.rules.strategy import Question

MEMORY_MS = 5000  # until the next look at a plan that a full server holds
ANSWER_WAIT = "answer_wait_s"  # among limits: how long a question waits for its answer, in seconds
ANSWER_WAIT_S = 7 * DAY_MS // 1000
APPROVAL_MS = 7 * DAY_MS  # each wait for a person has its own deadline
MAX_BACKOFF_MS = 60_000
MAX_CROWD = 64  # steps that wait at once: every commit writes all of them


def look_at_holds(unit: UnitOfWork) -> None:
    """Halt the plan if a bulk command ends it; else hold the plan, or release it."""
    plan, standing, now = unit.plan, unit.snapshot.standing, unit.snapshot.now
    if standing and standing.command != "pause":
        unit.inputs.append(["order", *standing])
        evidence = {"actor": standing.actor, "command_id": standing.command_id, "scope": standing.scope}
        reason = f"{standing.command} of {standing.scope} by {standing.actor}: {standing.reason}"
        halt.halt(unit, "manual", reason, evidence)
        return
    if plan.paused_until and now >= plan.paused_until:
        unit.inputs.append(["pause over", plan.paused_until])
        plan.paused, plan.paused_until = "", 0
        plan.dirty.add("live")
    why, until = _hold(unit)
    if why != plan.held:
        unit.inputs.append(["held", why, *(standing or ())])
        unit.emit("plan.held" if why else "plan.released", {}, why or plan.held)
        plan.held = why
        plan.dirty.add("live")
    for end in (until, plan.paused_until):
        if end:
            unit.wake_at(end)


def _hold(unit: UnitOfWork) -> tuple[str, int]:
    """Return why the plan is held, and until when (ms); 0 for no known end."""
    standing, now = unit.snapshot.standing, unit.snapshot.now
    if standing:
        return f"{PAUSED}{standing.scope} by {standing.actor}: {standing.reason}", standing.until
    for scope, grant in unit.snapshot.grants.items():
        if grant.exhausted and grant.left <= 0 and not unit.is_delivering:
            return f"the day budget of {scope} is used up", (now // DAY_MS + 1) * DAY_MS
    if unit.snapshot.short_of_memory:
        return "the server's memory is nearly full", now + MEMORY_MS
    return next((why for hold in HOLDS if (why := hold(unit.plan))), ""), 0


def await_approval(unit: UnitOfWork, step: Step) -> bool:
    """Remove a ready step from the queue if a person has to approve it first; it uses no slot and no file then."""
    if step.status.approval not in ("", "asked") or step.facts["risk_level"] not in unit.plan.head.approvals:
        return False
    del unit.ready[step.step_id]
    ask_approval(unit, step, step.facts["risk_level"])
    return True


def ask_approval(unit: UnitOfWork, step: Step, why: str, **about: Any) -> None:
    """Let a step wait until a person approves it; the event has the reason `why`, and the fields `about`."""
    until = unit.snapshot.now + APPROVAL_MS
    step.status.approval = "asked"
    unit.touched[step.step_id] = step
    unit.plan.waits[step.step_id] = until
    unit.plan.dirty.add("live")
    unit.wake_at(until)
    unit.emit("step.approval_requested", {"step_id": step.step_id, "until": rfc3339(until), **about}, why)


def look_at_approvals(unit: UnitOfWork) -> None:
    """Halt the plan if an approval did not come in time; else wake up again for the next deadline.

    Raises NeedsSteps if the snapshot lacks the step that was not approved.
    """
    for step_id, until in unit.plan.waits.items():
        if unit.snapshot.now < until:
            unit.wake_at(until)
        else:
            step = unit.snapshot.steps.get(step_id)
            if step is None or step.spec is None:  # the halt names its risk
                raise NeedsSteps(frozenset({step_id}))
            reason = f"no person approved {step_id} by {rfc3339(until)}"
            unit.inputs.append(["approval over", step_id])
            times = {"asked_at": rfc3339(until - APPROVAL_MS), "until": rfc3339(until)}
            halt.halt(unit, "approval_deadline", reason, {"step_id": step_id, **times})
            return


def ask(unit: UnitOfWork, question: Question) -> None:
    """Ask `question` in place of any earlier one; ready steps and attempts in flight go on."""
    until = unit.snapshot.now + 1000 * (unit.plan.limits.get(ANSWER_WAIT) or ANSWER_WAIT_S)
    data = {"kind": question.kind, "questions": list(question.questions), "until": until}
    _await_answer(unit, data)
    unit.keep_strategy_state(page=question.document)
    unit.emit("plan.input_requested", {**data, "until": rfc3339(until)})


def await_draft(unit: UnitOfWork, patience_ms: int) -> None:
    """Wait for a drafter that the worker asks: no person can answer, but a command can end the plan."""
    until = unit.snapshot.now + patience_ms
    _await_answer(unit, {"kind": DRAFT, "questions": [], "until": until})
    unit.emit("plan.drafting", {"until": rfc3339(until)})


def _await_answer(unit: UnitOfWork, question: dict[str, Any]) -> None:
    unit.plan.question = {**question, "asked": unit.snapshot.now}
    unit.plan.dirty.add("live")
    unit.wake_at(question["until"])


def look_at_question(unit: UnitOfWork, grace: int = 0) -> None:
    """End the plan if no answer came in time; else wake up again for the deadline.

    While no sweep ran, until `grace` (ms), no worker asked a drafter either. So an answer of a drafter has more time
    then.
    """
    asked = unit.plan.question
    if asked is None:
        return
    until = asked["until"]
    if grace and asked["kind"] == DRAFT:
        until = max(until, grace + until - asked["asked"])
    if unit.snapshot.now < until:
        unit.wake_at(until)
        return
    unit.inputs.append(["answer over", asked["until"]])
    times = {"asked_at": rfc3339(asked["asked"]), "until": rfc3339(asked["until"])}
    reason = f"no answer to the question ({asked['kind']}) came by {times['until']}"
    halt.halt(unit, "answer_deadline", reason, {"questions": asked["questions"], **times})


def back_off(unit: UnitOfWork, step: Step, category: str) -> None:
    """Make a step that is tried again ready at once, or after a wait if waiting may help."""
    status, seed = step.status, unit.plan.head.seed
    table = unit.snapshot.policy.backoff_ms
    ms = backoff(category, status.failures, f"{seed}|{step.step_id}|{status.attempt}", table)
    if ms:
        _pause(unit, step, ms)
    else:
        unit.make_ready(step)


def pause_longer(unit: UnitOfWork, step: Step, nth: int) -> None:
    """Let a step wait after its nth release or failed delivery: at least 2 s, at most 60 s."""
    seed = f"{unit.plan.head.seed}|{step.step_id}|{step.status.attempt}"
    ms = backoff(HANDED_BACK, nth, seed, unit.snapshot.policy.backoff_ms)
    _pause(unit, step, max(HANDED_BACK_MS, ms))


def _pause(unit: UnitOfWork, step: Step, ms: int) -> None:
    unit.plan.backoffs[step.step_id] = until = unit.snapshot.now + ms
    unit.plan.dirty.add("live")
    unit.wake_at(until)


def look_at_backoffs(unit: UnitOfWork) -> None:
    """Make steps ready whose wait is over. Raises NeedsSteps if the snapshot lacks them."""
    plan, now = unit.plan, unit.snapshot.now
    # A backoff beyond the longest one is from before the server's clock was set back.
    over = [step_id for step_id, until in plan.backoffs.items() if not now < until <= now + MAX_BACKOFF_MS]
    if missing := frozenset(over) - unit.snapshot.steps.keys():
        raise NeedsSteps(missing)
    if over:
        unit.inputs.append(["backoff over", over])
    for step_id in over:
        del plan.backoffs[step_id]
        unit.make_ready(unit.snapshot.steps[step_id])
    for until in plan.backoffs.values():
        unit.wake_at(until)


def keep_time(unit: UnitOfWork) -> None:
    """Stop the wall clock while the plan can do nothing, and let it run again afterwards.

    A stopped plan can do nothing. The same applies if all open steps wait for a person, a paused queue, or files of
    other plans. The clock also stops during a delivery. If a pause begins or ends, controllers of attempts in flight
    learn it.
    """
    plan, times = unit.plan, unit.plan.times
    goes_on = unit.snapshot.active or unit.ready.keys() - unit.kept.keys() or plan.backoffs
    waits = plan.waits or plan.question or unit.kept or plan.claims.waits
    still = unit.is_stopped or unit.is_delivering or bool(waits and not goes_on)
    if still and "still" not in times:
        if unit.kept:
            unit.inputs.append(["queue paused", sorted(set(unit.kept.values()))])
        times["still"] = unit.snapshot.now
        plan.dirty.add("live")
    elif not still and "still" in times:
        times["rested"], times["went_on"] = times.pop("still"), unit.snapshot.now
        times["lost"] = times.get("lost", 0) + times["went_on"] - times["rested"]
        plan.dirty.add("live")
        if not (unit.inputs or unit.moves):
            unit.inputs.append(["queue resumed"])  # else the log would not have the restart of the wall clock
        unit.wake_at(wall_clock_ends(plan) or unit.snapshot.now)
    if unit.is_paused != unit.was_paused:
        action = "pause" if unit.is_paused else "continue"
        told = {one.step_id for one in unit.change.dispatches} | unit.change.actions.keys()
        unit.change.actions |= {step_id: action for step_id in unit.snapshot.active if step_id not in told}


def wall_clock_ends(plan: PlanRecord) -> int | None:
    """Return when the plan's wall clock runs out (ms); None while it is stopped or has no limit."""
    times, limit = plan.times, plan.limits["wall_clock_s"]
    if limit is None or "ready" not in times or "still" in times:
        return None
    return times["ready"] + 1000 * limit + times.get("lost", 0)


def count_outages(unit: UnitOfWork, clocks: Clocks) -> None:
    """Exclude the time without sweeps from the wall clock, unless the clock was stopped at that time."""
    times = unit.plan.times
    new = clocks.down - times.get("down", 0)
    if new <= 0:
        return
    unit.inputs.append(["outage", new, clocks.grace])
    times["down"] = clocks.down
    began, ended = clocks.grace - new, clocks.grace
    rested, went_on = (times["still"], ended) if "still" in times else (times.get("rested", 0), times.get("went_on", 0))
    twice = max(0, min(ended, went_on) - max(began, rested))
    times["lost"] = times.get("lost", 0) + new - twice
    times["outages"] = times.get("outages", 0) + new - twice


def backoff(category: str, nth: int, seed: str, table: Mapping[str, int] = BACKOFF_MS) -> int:
    """Return the wait after the nth failure, in ms: half of it fixed, half from `seed`, so that many waits spread out.

    With `nth` 0 nothing has failed, and the wait is 0; for example, no controller claimed the attempt.
    """
    whole = min(MAX_BACKOFF_MS, table.get(category, 0) << min(nth - 1, 10)) if nth else 0
    share = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=2).digest()) / 0x10000
    return whole // 2 + int(whole / 2 * share)
