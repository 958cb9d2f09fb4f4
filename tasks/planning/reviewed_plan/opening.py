"""What planning begins with: an empty plan.json, context.json with nothing left open, and a plan that was supplied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from schemas import codec
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.review import ReviewContext, ReviewDocument, ReviewedPlanInput
from schemas.review_plan import MAX_PLAN_BYTES, MilestoneDependencies, Plan, Wave
from schemas.review_qr import QrPhase
from schemas.times import rfc3339
from tasks.planning.reviewed_plan.completeness import gaps
from tasks.planning.reviewed_plan.integrity import faults
from tasks.planning.reviewed_plan.markdown import plan_md
from tasks.planning.reviewed_plan.waves import waves_of
from tasks.planning.reviewed_plan.words import cleaned

# What stands in a list of context.json that has nothing: an empty one would not say whether anybody looked.
SENTINELS: Mapping[str, str] = {
    "constraints": "none confirmed",
    "entry_points": "greenfield",
    "rejected_alternatives": "none discussed",
    "current_understanding": "none",
    "assumptions": "none",
    "invisible_knowledge": "none",
    "user_quotes": "none",
}


def opened(goal: Goal, given: ReviewedPlanInput, now: int) -> ReviewDocument:
    """Begin with the plan that was supplied, without what we do not know of it, or with an empty one."""
    plan = skeleton(goal, now)
    if given.plan is not None:
        plan = Plan.model_validate(cleaned(given.plan.model_dump(mode="json")), extra="ignore")
    return ReviewDocument(plan=plan, context=given.context)


def skeleton(goal: Goal, now: int) -> Plan:
    """Make an empty plan.json; its id follows from the goal and the time, so that the same draft is the same plan."""
    digest = hashlib.blake2b(codec.dumps([goal.goal_id, goal.goal, now]), digest_size=16).hexdigest()
    parts = (digest[:8], digest[8:12], f"8{digest[13:16]}", f"8{digest[17:20]}", digest[20:])  # a UUID of version 8
    return Plan(plan_id="-".join(parts), created_at=rfc3339(now))


def verified(goal: Goal, context: ReviewContext) -> ReviewContext:
    """Fill in what context.json leaves out: the goal is the task, and every other list says that it has nothing."""
    given = ReviewContext.model_validate(cleaned(context.model_dump(mode="json")), extra="ignore")
    empty: dict[str, tuple[str, ...]] = {
        name: (word,) for name, word in SENTINELS.items() if not any(map(str.strip, getattr(given, name)))
    }
    if not any(map(str.strip, given.task_spec)):
        empty["task_spec"] = (goal.goal[:2000],)
    if goal.constraints and "constraints" in empty:
        empty["constraints"] = goal.constraints
    return given.model_copy(update=empty)


def frozen(document: ReviewDocument, now: int) -> ReviewDocument:
    """Freeze plan.json, its waves written down, and derive plan.md from it; a frozen one stays as it is."""
    plan = document.plan
    if plan.frozen_at is None:
        last = {"frozen_at": rfc3339(now), "milestone_dependencies": plan_waves(plan)}
        plan = plan.model_copy(update=last)
    return document.model_copy(update={"plan": plan, "plan_md": plan_md(plan)})


def plan_waves(plan: Plan) -> MilestoneDependencies:
    """Write down the waves that follow from what the milestones depend on, where none were given."""
    given = plan.milestone_dependencies
    if given.waves:
        return given
    waves = tuple(
        Wave(wave=number, milestones=tuple(each.id for each in wave)) for number, wave in enumerate(waves_of(plan), 1)
    )
    return given.model_copy(update={"waves": waves, "version": given.version + 1})


def unfit(plan: Plan, allowed: tuple[str, ...], pointer: str) -> Iterator[FieldError]:
    """Say why a plan cannot be executed as it is; it lies at `pointer`."""
    for fault in _misfits(plan, allowed):
        code, _, sentence = fault.partition(": ")
        yield FieldError(pointer=pointer, code=f"plan_{code}", message=sentence)


def _misfits(plan: Plan, allowed: tuple[str, ...]) -> Iterator[str]:
    yield from faults(plan, frozenset(allowed))
    yield from gaps(plan, QrPhase.PLAN_DESIGN)
    if len(codec.encode(plan)) > MAX_PLAN_BYTES:
        yield f"too_large: plan.json may have {MAX_PLAN_BYTES} bytes"
