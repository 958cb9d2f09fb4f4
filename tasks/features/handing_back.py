"""Attempts that a controller hands back: its host or its model's provider kept it from starting or from going on.

A success counts as handed back, too, if its receipts lack the folder of a tool that runs below the root. The same
applies if nothing shows that the step's held-out tests judged it.

Such an attempt ends without a failure, and its step is tried again after a growing pause. Releases are counted by the
claimant that the lease names. So one broken host does not halt a plan at once, but a step that no controller can do
halts it with the reasons. Trouble of a host, or of a controller that lacks a requirement, halts the plan if it repeats
for minutes, even from one controller. Trouble of a model's provider passes: the attempt is tried again until the plan's
time is over. Another end of an attempt resets the counts of its step.
"""

from __future__ import annotations

from typing import Any

from schemas.base import FailureCategory
from schemas.outcome import Outcome, ReleaseKind
from schemas.stored.features import Releases
from tasks.base.errors import LEASES, NeedsSteps
from tasks.plan.snapshot import NOTE, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt, waits
from tasks.policy.advice_on_limits import advise_on_hosts
from tasks.policy.claimant import claimed_by, describe_release
from tasks.policy.halt_rules import AT_ONCE
from tasks.policy.outcome_verdict import contradiction, folder_untold, judge_untold
from tasks.policy.pipeline import AT_WALL_CLOCK, GIVE_UP, JUDGES, SETTLE, Feature, HandedBack, Judgement
from tasks.rules import budget
from tasks.rules.budget import Booked
from tasks.text.fields import flatten
from tasks.toolchain.classify import category_of, signature

CLAIMANTS = 3  # after releases by so many claimants no controller can do the step
RELEASES, PAIR, SPREAD_MS = 10, 2, 600_000  # so many by two claimants, over so long, have the same effect
EQUAL, EQUAL_MS = 10, 600_000  # so many of LASTING for one reason within so long: the trouble does not pass
PASSING = (ReleaseKind.PROVIDER, ReleaseKind.REVIEW)  # another host has the same trouble
LASTING = (ReleaseKind.HOST, ReleaseKind.REQUIRES)
HELD_MS = 60_000  # an attempt that took longer may have used its whole reservation
MAX_LASTING = 24  # of LASTING, for one step: several hosts may have different reasons
MAX_LAST = 8  # releases in the explanation of a plan that ran out of time
LAST = "released"  # the note of the last ones; with a step id after it, those of the step


def settle(unit: UnitOfWork, seen: Judgement) -> Booked | None:
    """Book the reported usage of a handed-back attempt; at least its reservation if it took longer than HELD_MS.

    If the attempt was not handed back, resets the step's counts of releases, and returns None.
    """
    back = seen.handed_back = _recognize(unit, seen)
    if back is None:
        unit.plan.releases.forget_step(seen.step.step_id)
        return None
    held = unit.snapshot.now - back.since > HELD_MS
    return budget.settle_handed_back(unit.plan, seen.attempt, seen.outcome.metrics, held=held)


def _recognize(unit: UnitOfWork, seen: Judgement) -> HandedBack | None:
    """Return how an attempt was handed back; None if it was not.

    An attempt that succeeded, changed files, or broke a rule that halts at once was not handed back. There is one
    exception: a success without the folder of a tool, or without a judgement by held-out tests, counts as handed back.
    """
    step, attempt, outcome = seen.step, seen.attempt, seen.outcome
    untold = ""
    if outcome.success:
        untold = folder_untold(step.facts, outcome) or judge_untold(step.facts, outcome) or ""
    if (outcome.released is None or outcome.success) and not untold:
        return None
    word = outcome.failure_evidence.category if outcome.failure_evidence else None
    if category_of(word, "") in AT_ONCE or (untold and _breaks_a_rule(step, outcome)):
        return None
    if not untold and (outcome.touched_files or outcome.created_files or outcome.growth_kb):
        return None
    if not unit.snapshot.knows_leases:
        raise NeedsSteps(frozenset({LEASES}))
    if outcome.released is None or untold:
        return claimed_by(unit, step, attempt, untold)._replace(kind=ReleaseKind.REQUIRES)
    return claimed_by(unit, step, attempt, outcome.released.reason)._replace(kind=outcome.released.kind)


def _breaks_a_rule(step: Step, outcome: Outcome) -> bool:
    """Return whether an attempt broke a rule that halts its plan at once, in any folder of its tools."""
    found = contradiction(step.facts, outcome)
    return found is not None and found[0] in AT_ONCE


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Retry a step that was handed back, after a pause; halt its plan if no controller can do the step."""
    step, back = seen.step, seen.handed_back
    if back is None:
        return False
    found = _count(unit, step, seen.attempt.attempt, back)
    if halted := _nobody_can(unit, step, found, back):
        reason, evidence = halted
        if not any(give_up(unit, step, reason) for give_up in GIVE_UP):
            halt.halt(unit, "nobody_can", f"{reason}: {flatten(back.reason)}", evidence, step)
        return True
    unit.move_step(step, "ACTIVE", "released", back.reason)
    waits.pause_longer(unit, step, unit.plan.releases.of(step.step_id))
    return True


def explain(unit: UnitOfWork) -> dict[str, Any]:
    """Return the attempts that were handed back last, as evidence of a halt; empty if there are none."""
    if unit.plan.releases.counts is None:
        return {}
    return {"released": [describe_release(*entry) for entry in unit.note(LAST)]}


def _count(unit: UnitOfWork, step: Step, attempt: int, back: HandedBack) -> dict[str, Any]:
    """Count a release for its step and its plan; returns the counts of the step."""
    now, own = unit.snapshot.now, f"{LAST}:{step.step_id}"
    if missing := {NOTE + name for name in (own, LAST) if name not in unit.snapshot.notes}:
        raise NeedsSteps(frozenset(missing))
    found = unit.note(own) if unit.plan.releases.of(step.step_id) else None
    found = found or {"began": now, "count": 0, "by": {}}
    unit.plan.releases.add(step.step_id)
    unit.plan.dirty.add("live")
    if back.kind in LASTING:
        again = [*found.get("lasting", ()), [_name_trouble(back), attempt, back.controller, back.reason, now]]
        found["lasting"] = [each for each in again if now - each[-1] <= EQUAL_MS][-MAX_LASTING:]
    if back.controller and back.kind not in PASSING:
        found["began"] = found["began"] if found["count"] else now
        found["count"] += 1
        found["by"][back.controller] = [step.step_id, attempt, back.controller, back.reason, now]
    unit.keep_note(own, found)
    last = [*(unit.note(LAST) or ()), [step.step_id, attempt, back.controller, back.reason, now]]
    unit.keep_note(LAST, last[-MAX_LAST:])
    return found


def _name_trouble(back: HandedBack) -> str:
    """Return a name for the trouble that does not depend on numbers and times in its text."""
    return signature(FailureCategory.UNKNOWN, (), back.reason)


def _nobody_can(
    unit: UnitOfWork, step: Step, found: dict[str, Any], back: HandedBack
) -> tuple[str, dict[str, Any]] | None:
    """Return why no controller can do a step, with the evidence; None if a controller may still do it."""
    if back.kind in PASSING:
        return None
    by, count, minutes = found["by"], found["count"], (unit.snapshot.now - found["began"]) // 60_000
    who, told = ", ".join(by), list(by.values())
    equal = [each for each in found.get("lasting", ()) if back.kind in LASTING and each[0] == _name_trouble(back)]
    if len(by) >= CLAIMANTS:
        met = {"value": len(by), "limit": CLAIMANTS, "limit_name": "claimants"}
        reason = f"{len(by)} controllers handed {step.step_id} back ({who})"
    elif len(by) >= PAIR and count >= RELEASES and unit.snapshot.now - found["began"] >= SPREAD_MS:
        met = {"value": count, "limit": RELEASES, "limit_name": "releases"}
        reason = f"{step.step_id} was handed back {count} times in {minutes} minutes ({who})"
    elif len(equal) >= EQUAL:
        met = {"value": len(equal), "limit": EQUAL, "limit_name": "equal_releases"}
        who = ", ".join(dict.fromkeys(each[2] or "a controller without a claim" for each in equal))
        minutes = -(-(unit.snapshot.now - equal[0][-1]) // 60_000)
        reason = f"{step.step_id} was handed back {len(equal)} times in {minutes} minutes for one reason ({who})"
        told = [[step.step_id, *entry] for _, *entry in equal[-MAX_LAST:]]
    else:
        return None
    released = sorted((describe_release(*entry) for entry in told), key=lambda each: each["at"])
    return reason, {**met, "step_id": step.step_id, "released": released}


FEATURE = Feature(
    "handing_back",
    (SETTLE.row(settle), JUDGES.row(judge), AT_WALL_CLOCK.row(explain)),
    advice={"nobody_can": advise_on_hosts},
    is_idle=lambda plan: not plan.keeps(Releases),
)
