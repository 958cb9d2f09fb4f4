"""What planning begins with: an empty plan.json, context.json with nothing left open, and a plan that was supplied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from schemas import codec
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.review import MAX_FACT, ReviewContext, ReviewDocument, ReviewedPlanInput
from schemas.review_plan import MilestoneDependencies, Plan, Wave
from schemas.review_qr import QrPhase
from schemas.times import rfc3339
from tasks.strategies.reviewed_plan.completeness import gaps
from tasks.strategies.reviewed_plan.integrity import faults, too_large
from tasks.strategies.reviewed_plan.markdown import plan_md
from tasks.strategies.reviewed_plan.waves import waves_of
from tasks.strategies.reviewed_plan.words import fitted
from tasks.text.fields import fit

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
    """Begin with the plan that was supplied, without what we do not know of it, or with an empty one.

    ValidationError where cleaning leaves nothing of a text of that plan that must not be empty.
    """
    plan = skeleton(goal, now)
    if given.plan is not None:
        plan = fitted(Plan, given.plan)
    return ReviewDocument(plan=plan, context=verified(goal, given.context))


def skeleton(goal: Goal, now: int) -> Plan:
    """Make an empty plan.json; its id follows from the goal and the time, so that the same draft is the same plan."""
    digest = hashlib.blake2b(codec.dumps([goal.goal_id, goal.goal, now]), digest_size=16).hexdigest()
    parts = (digest[:8], digest[8:12], f"8{digest[13:16]}", f"8{digest[17:20]}", digest[20:])  # a UUID of version 8
    return Plan(plan_id="-".join(parts), created_at=rfc3339(now))


def verified(goal: Goal, context: ReviewContext) -> ReviewContext:
    """Fill in what context.json leaves out: the goal is the task, and every other list says that it has nothing."""
    given = fitted(ReviewContext, context)
    empty: dict[str, tuple[str, ...]] = {
        name: (word,) for name, word in SENTINELS.items() if not any(map(str.strip, getattr(given, name)))
    }
    if not any(map(str.strip, given.task_spec)):
        empty["task_spec"] = (goal.goal[:MAX_FACT],)
    if goal.constraints and "constraints" in empty:
        empty["constraints"] = goal.constraints
    return fitted(ReviewContext, given.model_copy(update=empty))


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
    yield from _told(chain(faults(plan, frozenset(allowed)), gaps(plan, QrPhase.PLAN_DESIGN), too_large(plan)), pointer)


def unplannable(plan: Plan, allowed: tuple[str, ...], pointer: str) -> Iterator[FieldError]:
    """Say why a plan cannot be worked on: what is wrong with it now makes every change of it wrong."""
    yield from _told(chain(faults(plan, frozenset(allowed) or None), too_large(plan)), pointer)


def _told(faults_: Iterable[str], pointer: str) -> Iterator[FieldError]:
    for fault in faults_:
        code, _, sentence = fault.partition(": ")
        yield FieldError(pointer=pointer, code=f"plan_{code}", message=fit(sentence, 500))
