"""Attempts that are handed back: their host, or their model's provider, kept them from beginning or from going on.

So count successes whose receipts do not tell the folder in which tools ran that run below the root, and those of which
nothing tells that the held-out tests of their step judged them.

Such an attempt ends without a failure, and its step is tried again after a pause that grows. Releases are counted by
claimant, as the lease names it: one broken host does not halt a plan at once, and a step that no controller can do
halts its plan with the reasons. The same trouble of a host, or of a controller that lacks a requirement, halts the plan
if it comes back for minutes, also from one controller. Trouble of a model's provider passes: such an attempt is tried
again until the plan's time is over. The counts of a step begin anew once an attempt of it ended in another way.
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

CLAIMANTS = 3  # who handed the same step back: then nobody can do it
RELEASES, PAIR, SPREAD_MS = 10, 2, 600_000  # so many by two of them, over so long, say the same
EQUAL, EQUAL_MS = 10, 600_000  # so many for one reason within so long, of these kinds: nobody mends that
PASSING = (ReleaseKind.PROVIDER, ReleaseKind.REVIEW)  # which no other host would mend
LASTING = (ReleaseKind.HOST, ReleaseKind.REQUIRES)
HELD_MS = 60_000  # an attempt that was held for longer may have used all that it reserved
MAX_LASTING = 24  # of those kinds, of a step: several hosts may have reasons of their own
MAX_LAST = 8  # of those handed back last, for the explanation of a plan that ran out of time
LAST = "released"  # the note of the last ones; with a step behind it, that of the step


def settle(unit: UnitOfWork, seen: Judgement) -> Booked | None:
    """Book what it reports, and what it held if that is more and it was held for longer than a minute.

    Returns None where the attempt was not handed back, and the step begins to count anew.
    """
    back = seen.handed_back = _recognize(unit, seen)
    if back is None:
        unit.plan.releases.forget_step(seen.step.step_id)
        return None
    held = unit.snapshot.now - back.since > HELD_MS
    return budget.settle_handed_back(unit.plan, seen.attempt, seen.outcome.metrics, held=held)


def _recognize(unit: UnitOfWork, seen: Judgement) -> HandedBack | None:
    """Return how an attempt was handed back, if it was.

    It was not where it succeeded, left something on the plan's branch, or broke a rule that halts at once. A success
    of tools that ran nobody knows where is none, nor one of which nothing tells that held-out tests judged it: that
    counts as handed back.
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
    """Whether an attempt did what halts its plan at once, wherever its tools ran."""
    found = contradiction(step.facts, outcome)
    return found is not None and found[0] in AT_ONCE


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Have a step that was handed back tried again after a pause, unless nobody can do it: that halts the plan."""
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
    """Tell the last attempts that were handed back, for the evidence of a halt; nothing where none was."""
    if unit.plan.releases.counts is None:
        return {}
    return {"released": [describe_release(*entry) for entry in unit.note(LAST)]}


def _count(unit: UnitOfWork, step: Step, attempt: int, back: HandedBack) -> dict[str, Any]:
    """Count it with its step and with its plan; returns what is counted of the step."""
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
    """Name a trouble so that the same one has the same name again, whatever numbers and times it tells."""
    return signature(FailureCategory.UNKNOWN, (), back.reason)


def _nobody_can(
    unit: UnitOfWork, step: Step, found: dict[str, Any], back: HandedBack
) -> tuple[str, dict[str, Any]] | None:
    """Return why nobody can do a step, and the evidence of it; None where somebody still may."""
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
