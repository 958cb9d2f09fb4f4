"""Files that other live plans of the repository may patch, too: claims of plans, and the effect of an overlap.

A plan claims the files that its steps may patch, in the commit that makes it READY or adds the steps. Its claims come
after earlier ones, and its end gives them back. The later plan chooses the effect of an overlap: it goes on, waits for
every earlier claim, or is refused. A plan that waits keeps its place. Waits cannot form a cycle: a claim goes before
the claims of plans that wait for its own plan. If one of these already runs, the overlap is allowed and reported.

A plan that goes on claims the files that its steps name and the files of their focus. It claims other files after it
changed them. A plan whose goal waits or refuses also claims the folders of its patterns, and the claims of others in or
around these. A plan that delivers waits unless its goal or a policy chooses otherwise; it claims files but no folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from schemas.base import Mode, Overlap
from schemas.base import PlanState as P
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import PlannedStep
from schemas.stored import Claims, PlanHead, PlanRecord
from schemas.stored.features import WHOLE_PLAN
from tasks.base.errors import NeedsSteps
from tasks.base.policy import Policy
from tasks.plan.changeset import FIRST, WHOLE
from tasks.plan.file_claims import (
    COUNTER,
    MOST_PLANS,
    REVIEW,
    WAITS,
    FileClaims,
    asked_for,
    before,
    claimed_by,
    claims_of,
    count_claims,
    last_of,
    overlapping,
    plans_of,
    wait_reason,
)
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt
from tasks.policy.advice_facts import AGAIN, Facts, listing, sentence
from tasks.policy.claiming import DELIVERS, keep_waiting, put, read
from tasks.policy.pipeline import (
    ADDED,
    AFTER_END,
    AT_BIRTH,
    BEFORE_START,
    HOLDS,
    LIMITS,
    ON_TIMER,
    OPENED,
    REFUSE_ADDED,
    REFUSE_DRAFT,
    SEED,
    Feature,
    Judgement,
    keeping,
)
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Draft, Rejected
from tasks.rules.validation import MAX_ERRORS

MODE = "overlap"  # among limits: the plan's choice about files of live plans, if it is not to go on
NUMBERS = MappingProxyType({Overlap.WAIT: 1, Overlap.REFUSE: 2})
FOR_FILES = 2  # added to these if the plan claims no folders
NOTE = "overlaps"  # overlaps reported for a plan, for people
MOST_TOLD = 20  # files of one overlap
MOST_KEPT = 100  # files of the note
NOTHING_CLAIMED = FileClaims()

Overlaps = Mapping[str, str]  # file -> the claims on it


def claims_files(plan: PlanRecord) -> bool:
    """Return whether a plan claims files: it has a repository."""
    return bool(plan.head.repo)


def limits_of(plan_seed: PlanSeed, goal: Goal, _: Draft) -> Mapping[str, int]:
    """Return the limit that stores how the plan treats overlaps; empty if it goes on in spite of them."""
    mode = asked_of(goal, plan_seed.policy) if goal.context.repo else Overlap.ALLOW
    return {} if mode is Overlap.ALLOW else {MODE: NUMBERS[mode] + FOR_FILES * (not claims_folders(goal, mode))}


def asked_of(goal: Goal, policy: Policy) -> Overlap:
    """Return how a plan treats overlaps: as its goal chooses, else as the last row of its policy, else by default.

    By default only a plan that delivers waits. One that continues a delivered branch never waits for its files.
    """
    if goal.delivery and goal.delivery.onto:
        return Overlap.ALLOW
    chosen = [each.overlap for each in policy.rules_of(goal.kind, goal.tenant, goal.context.repo) if each.overlap]
    usual = Overlap.WAIT if _delivers(goal) else Overlap.ALLOW
    return goal.overlap or (chosen[-1] if chosen else usual)


def claims_folders(goal: Goal, mode: Overlap) -> bool:
    """Return whether a plan claims the folders of patterns: its own goal asks to wait or to be refused."""
    return mode is not Overlap.ALLOW and (goal.overlap is not None or not _delivers(goal))


def _delivers(goal: Goal) -> bool:
    return goal.delivery is not None and (goal.delivery.push or goal.delivery.pull_request)


def keep_read(plan_seed: PlanSeed, goal: Goal, draft: Draft) -> PlanSeed:
    """Reduce the claims in the plan seed to the claims on files of the draft's steps.

    For files beyond the number that is reported, only the count of claims stays.
    """
    if plan_seed.claims is None:
        return plan_seed
    mode = asked_of(goal, plan_seed.policy)
    most = MAX_ERRORS if mode is Overlap.REFUSE else MOST_TOLD
    wanted = _wanted(draft.steps, plan_seed.claims, wide=claims_folders(goal, mode))
    claims = plan_seed.claims.cut([*wanted, *plan_seed.same], most)
    return replace(plan_seed, claims=claims if claims.files else None)


def note_read(unit: UnitOfWork, plan_seed: PlanSeed, _: Goal, __: Draft) -> None:
    """Add to the plan's log the claims that were read at its creation."""
    if plan_seed.claims:
        unit.around["claims"] = plan_seed.claims.tell()


def refuse_draft(plan_seed: PlanSeed, goal: Goal, draft: Draft) -> Rejected | None:
    """Refuse a draft whose files live plans claim."""
    claims = plan_seed.claims
    if not claims or asked_of(goal, plan_seed.policy) is not Overlap.REFUSE:
        return None
    wanted = _wanted(draft.steps, claims, wide=claims_folders(goal, Overlap.REFUSE))
    if not (found := _others(wanted, claims, "")):
        return None
    errors = tuple(
        FieldError(pointer="/allowed_files", code="overlap", message=f"{file} is claimed by {_named(others)}.")
        for file, others in [*found.items()][:MAX_ERRORS]
    )
    return Rejected("overlap", errors, findings=draft.findings, tokens=draft.tokens, read=draft.read)


def claim(unit: UnitOfWork, steps: Sequence[PlannedStep]) -> None:
    """Claim the files of a plan that becomes READY; if the plan waits for others, none of its steps starts."""
    if not claims_files(unit.plan):
        return
    claims, me, mode = unit.snapshot.claims or NOTHING_CLAIMED, unit.snapshot.plan_id, _mode(unit.plan.head)
    files = _wanted(steps, claims, wide=_is_wide(unit.plan.head))
    found = _others(files, claims, me)
    waits = bool(found) and mode is Overlap.WAIT
    for file in files:
        put(unit, file, claims.mark(file), WAITS * waits + me)
    if waits and not unit.plan.claims.hold_plan:
        file = next(iter(found))
        keep_waiting(unit, {WHOLE_PLAN: [file, last_of(found[file])]})
    if found:
        unit.keep_note(NOTE, _tell(unit, found, ()))


def refuse_added(unit: UnitOfWork, steps: Sequence[PlannedStep], why: str, who: Mapping[str, Any]) -> bool:
    """Halt a plan that refuses overlaps, instead of adding `steps`; returns whether it did. Raises NeedsClaims."""
    if _mode(unit.plan.head) is not Overlap.REFUSE or not claims_files(unit.plan):
        return False
    wide = _is_wide(unit.plan.head)
    files = claimed_by(steps, wide=wide)
    claims = read(unit, asked_for(files) if wide else files, deep=False) if files else NOTHING_CLAIMED
    found = _others(_wanted(steps, claims, wide=wide), claims, unit.snapshot.plan_id)
    if not found:
        return False
    file, others = next(iter(found.items()))
    overlaps = _listed(found, ())
    evidence = {"value": len(found), "limit": 0, "limit_name": "overlaps", "overlaps": overlaps, **who}
    unit.emit("plan.overlaps", {"overlap": Overlap.REFUSE.value, "count": len(found), "overlaps": overlaps})
    reason = f"steps that were to be added may patch {file}, which is claimed by {_named(others)}"
    halt.halt(unit, "overlap", f"{reason} ({why})", evidence)
    return True


def claim_added(unit: UnitOfWork, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Claim the files of added steps; steps that wait for another plan are kept back.

    Raises NeedsClaims, and NeedsSteps for the note of the reported overlaps.
    """
    mode, me = _mode(unit.plan.head), unit.snapshot.plan_id
    wide = _is_wide(unit.plan.head)
    files = claimed_by(steps, wide=wide) if claims_files(unit.plan) else []
    if not files:
        return steps
    asked = asked_for(files) if wide else files
    if unit.plan.state == P.CREATED:
        read(unit, asked, deep=False)
        claim(unit, steps)
        return steps
    waits = mode is Overlap.WAIT
    claims = read(unit, asked, deep=waits)
    files = _wanted(steps, claims, wide=wide)
    found, behind = _others(files, claims, me), claims.behind if waits else {}
    ahead: dict[str, str] = {}  # file -> the plan that this one waits for, with the claim directly before its own
    for file in files:
        text, after = claims.of(file), behind.get(file, "")
        if me in plans_of(text):
            ahead[file] = before(text, WAITS + me)
            continue
        ahead[file] = _before_plan(text, after) if waits else ""
        put(unit, file, claims.mark(file), WAITS * bool(ahead[file]) + me, after)
    if found:
        known = unit.note(NOTE) or []
        unit.keep_note(NOTE, [*known, *_tell(unit, found, behind)][:MOST_KEPT])
    if waits and found:
        seen = claims.of(COUNTER)
        put(unit, COUNTER, seen, str(int(seen or 0) + 1), WHOLE)
    if waits:  # also for files that the plan claimed before
        _keep_back(unit, steps, {file: plan for file, plan in ahead.items() if plan})
    return steps


def _keep_back(unit: UnitOfWork, steps: Sequence[PlannedStep], ahead: Mapping[str, str]) -> None:
    """Keep each step back that claims a file in `ahead`, where another plan has an earlier claim."""
    waiting = {
        step.step_id: [file, ahead[file]]
        for step in steps
        if step.mode is Mode.PATCH and (file := _first_ahead(ahead, claimed_by((step,), wide=_is_wide(unit.plan.head))))
    }
    if waiting:
        keep_waiting(unit, {**unit.plan.claims.waits, **waiting})


def keeps_back(unit: UnitOfWork, step: Step) -> bool:
    """Remove a step that waits for a file from the ready queue, so that it uses no slot; return whether it waits."""
    if step.step_id not in unit.plan.claims.waits:
        return False
    del unit.ready[step.step_id]
    return True


def look(unit: UnitOfWork) -> None:
    """Make each step ready that no earlier claim of another plan keeps back any more; for the others, wake up later.

    Raises NeedsClaims, and NeedsSteps if the snapshot lacks steps that wait.
    """
    waiting, me = unit.plan.claims.waits, unit.snapshot.plan_id
    if not waiting:
        return
    steps = unit.snapshot.steps
    if missing := frozenset(name for name in waiting if name and (name not in steps or steps[name].spec is None)):
        raise NeedsSteps(missing)
    delivers = WHOLE_PLAN in waiting and DELIVERS in unit.plan.limits
    claims = read(unit, (REVIEW,) if delivers else (), deep=False)
    own, mine = claims.plans.get(me, ()), WAITS + me
    ahead = {file: plan for file in own if (plan := before(claims.of(file), mine))}
    left: dict[str, list[str]] = {}
    for name, was in waiting.items():
        if found := _still_waits(unit, name, ahead, claims.of(REVIEW) if delivers else ""):
            left[name] = found
            if found != was:
                unit.inputs.append(["file wait", name, *found])
        else:
            unit.inputs.append(["file wait over", name])
            if name != WHOLE_PLAN and steps[name].status.unmet == 0:
                unit.make_ready(steps[name])
    if WHOLE_PLAN not in left:  # else all of its claims keep their places, as none of its steps runs
        for file in own:
            if file not in ahead and mine in claims.of(file).split():
                put(unit, file, "", me, FIRST)
    keep_waiting(unit, left)


def _still_waits(unit: UnitOfWork, name: str, ahead: Mapping[str, str], full: str) -> list[str]:
    """Return the claim that a step, or the whole plan, waits for, and the plan before it; empty where it may go on."""
    if name == WHOLE_PLAN:
        file = next(iter(ahead), "")
        return [file, ahead[file]] if file else [REVIEW, last_of(full)] if full else []
    claimed = _claims_in(unit.snapshot.steps[name].facts, wide=_is_wide(unit.plan.head))
    file = _first_ahead(ahead, claimed)
    return [file, ahead[file]] if file else []


def _claims_in(facts: Mapping[str, Any], *, wide: bool) -> list[str]:
    """Return the claims of a stored step."""
    patterns = facts["allowed_patterns"] if wide else ()
    return claims_of(facts["allowed_files"], (place["path"] for place in facts["focus"]), patterns)


def _first_ahead(ahead: Mapping[str, str], claimed: Sequence[str]) -> str:
    """Return the first claim that has another plan's claim before it, or that overlaps such a claim; empty if none."""
    return next((file for file in claimed if file in ahead), "") or next(iter(overlapping(claimed, ahead)), "")


def note_changed(unit: UnitOfWork, seen: Judgement) -> None:
    """Claim the files that a step changed but does not name; this never waits. Raises NeedsClaims."""
    if not claims_files(unit.plan) or _is_wide(unit.plan.head):
        return
    known = frozenset(_claims_in(seen.step.facts, wide=False))
    changed = dict.fromkeys((*seen.outcome.touched_files, *seen.outcome.created_files))
    new = [path for path in changed if path not in known][:MOST_KEPT]
    if not new:
        return
    claims, me = read(unit, new, deep=False), unit.snapshot.plan_id
    for file in new:
        if me not in plans_of(claims.of(file)):
            put(unit, file, claims.mark(file), me)


def why_held(plan: PlanRecord) -> str:
    """Return the file and plan that the whole plan waits for; empty if it waits for no file."""
    waits = plan.claims
    return wait_reason(*waits.waits[WHOLE_PLAN]) if waits.hold_plan else ""


def _mode(head: PlanHead) -> Overlap:
    """Return the plan's choice about overlaps."""
    kept = head.limits.get(MODE) or 0
    return next((mode for mode, number in NUMBERS.items() if kept in (number, number + FOR_FILES)), Overlap.ALLOW)


def _is_wide(head: PlanHead) -> bool:
    """Return whether the plan also claims the folders of patterns."""
    return head.limits.get(MODE) in NUMBERS.values()


def _wanted(steps: Iterable[PlannedStep], claims: FileClaims, *, wide: bool) -> list[str]:
    """Return the files and folders that steps claim; with `wide` also existing claims inside or around these."""
    files = claimed_by(steps, wide=wide)
    return [*files, *overlapping(files, claims.files)] if wide else files


def _others(files: Iterable[str], claims: FileClaims, me: str) -> dict[str, str]:
    """Return those of `files` that other plans claim and the plan `me` does not, each with its claims."""
    found = {file: claims.of(file) for file in files}
    return {file: text for file, text in found.items() if text and me not in plans_of(text)}


def _before_plan(text: str, plan_id: str) -> str:
    """Return the plan whose claim in `text` is directly before that of `plan_id`; without an id, the last plan."""
    return (before(text, plan_id) or before(text, WAITS + plan_id)) if plan_id else last_of(text)


def _tell(unit: UnitOfWork, found: Overlaps, circles: Iterable[str]) -> list[dict[str, Any]]:
    """Emit an event about files that other plans claim, too; return the entries for the note about overlaps."""
    mode, overlaps = _mode(unit.plan.head), _listed(found, circles)
    file, others = next(iter(found.items()))
    reason = wait_reason(file, last_of(others)) if mode is Overlap.WAIT else f"{file} is claimed by {_named(others)}"
    data = {"overlap": mode.value, "count": len(found), "overlaps": overlaps}
    unit.emit("plan.overlaps", data, reason)
    return overlaps


def _listed(found: Overlaps, circles: Iterable[str]) -> list[dict[str, Any]]:
    marked = frozenset(circles)
    return [
        {
            "file": file,
            "plans": plans_of(others)[:MOST_PLANS],
            **({"circle": True} if file in marked else {}),
        }
        for file, others in [*found.items()][:MOST_TOLD]
    ]


def _named(others: str) -> str:
    """Return the ids of the plans that claim a file, as a text."""
    beyond = count_claims(others) - MOST_PLANS
    return ", ".join(plans_of(others)[:MOST_PLANS]) + (f" and {beyond} more" if beyond > 0 else "")


def advise(facts: Facts) -> str:
    """Return advice to wait for the plans that claim the files, and how to do that automatically."""
    told = listing(f"{each['file']} ({', '.join(each['plans'])})" for each in facts.evidence.get("overlaps", ()))
    told = told or listing(error["message"].rstrip(".") for error in facts.evidence.get("errors", ()))
    ways = sentence(f"{AGAIN} once these plans have ended", "set overlap to wait, so that it waits for them by itself")
    return f"Others are at work on these files: {told}. {ways}"


WAITS_FOR_FILES = keeping(Claims)
FEATURE = Feature(
    "overlaps",
    (
        LIMITS.row(limits_of),
        SEED.row(keep_read),
        REFUSE_DRAFT.row(refuse_draft),
        AT_BIRTH.row(note_read),
        OPENED.row(claim),
        AFTER_END.row(note_changed, fact="allowed_patterns"),
        BEFORE_START.row(keeps_back, only=WAITS_FOR_FILES),
        HOLDS.row(why_held, only=WAITS_FOR_FILES),
        ON_TIMER.row(look, only=WAITS_FOR_FILES),
        REFUSE_ADDED.row(refuse_added),
        ADDED.row(claim_added),
    ),
    events=("plan.overlaps",),
    advice={"overlap": advise},
    is_idle=lambda plan: not plan.keeps(Claims),
    end_fields=("allowed_patterns",),
)
