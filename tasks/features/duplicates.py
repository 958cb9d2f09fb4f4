"""Handles a goal that does the same as an open change or a plan at work: it waits, is refused, or adopts the other.

A plan that delivers puts a claim on its failing tests; without those, on its sentence and files. After its landing it
also claims the tree that it delivers. It gives up these claims with its file claims when its pull request is merged or
closed. The commit that makes a plan compares the claims, so no two plans of one goal begin at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schemas.base import Duplicates, GoalKind, Overlap
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import PlannedStep
from schemas.stored.features import WHOLE_PLAN
from tasks.base.policy import Policy
from tasks.plan.file_claims import (
    JUST_MERGED,
    MARK,
    REVIEW,
    WAITS,
    FileClaims,
    just_merged,
    last_of,
    mark_of_same,
    plans_of,
)
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.claiming import keep_waiting, put
from tasks.policy.pipeline import OPENED, REFUSE_DRAFT, SEED, Feature
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Draft, Rejected
from tasks.rules.validation import reject

SAME_TESTS, SAME_GOAL = "the same failing tests", "the same goal"


def asked_of(goal: Goal, policy: Policy) -> Duplicates:
    """Return how a goal is treated if it is a duplicate: by the last row of its policy, else `wait`.

    A goal with the overlap `allow` is always allowed.
    """
    if goal.overlap is Overlap.ALLOW:
        return Duplicates.ALLOW
    rows = policy.rules_of(goal.kind, goal.tenant, goal.context.repo)
    return next((each.duplicates for each in reversed([*rows]) if each.duplicates), Duplicates.WAIT)


def marks_of(goal: Goal) -> tuple[str, ...]:
    """Return the names of the claims that a goal has in common with its duplicates; empty if none are compared.

    Only new tasks that deliver are compared: by their failing tests, else by their sentence and files.
    """
    delivery, context = goal.delivery, goal.context
    delivers = delivery is not None and (delivery.push or delivery.pull_request) and not delivery.onto
    if not delivers or not context.repo or goal.kind is not GoalKind.TASK or goal.from_ or goal.retry_of:
        return ()
    if context.failing_tests:
        return (mark_of_same(SAME_TESTS, sorted(set(context.failing_tests))),)
    return (mark_of_same(SAME_GOAL, (" ".join(goal.goal.casefold().split()), sorted(goal.allowed_files))),)


def asked_for(goal: Goal) -> tuple[str, ...]:
    """Return the names of the claims to read for a goal that delivers, in addition to its files.

    These are the claims of duplicates, and the claim that shows that a repository has too many open changes.
    """
    delivery = goal.delivery
    delivers = delivery is not None and (delivery.push or delivery.pull_request) and not delivery.onto
    return (*compared(goal), REVIEW) if delivers and goal.context.repo else ()


def compared(goal: Goal) -> tuple[str, ...]:
    """Return the names of the claims of duplicates that are open.

    Without failing tests, also return the claims of duplicates that were merged within a day.
    """
    marks = marks_of(goal)  # failing tests may fail for another reason after a merge
    return marks if goal.context.failing_tests else (*marks, *map(just_merged, marks))


def found(goal: Goal, claims: FileClaims | None) -> tuple[str, str] | None:
    """Return the equal part of a duplicate, in words, and the id of the earlier plan; None if there is no such plan."""
    for mark in compared(goal) if claims else ():
        if claims and (plans := plans_of(claims.of(mark))):
            return mark.removeprefix(JUST_MERGED).removeprefix(MARK).partition("/")[0], plans[0]
    return None


def refuse(goal: Goal, policy: Policy, claims: FileClaims | None) -> Rejected | None:
    """Refuse a duplicate, if its policy refuses such goals."""
    if asked_of(goal, policy) is not Duplicates.REFUSE or not (known := found(goal, claims)):
        return None
    what, plan_id = known
    pointer = "/goal" if what == SAME_GOAL else "/context/failing_tests"
    return reject(
        "duplicate",
        (
            FieldError(
                pointer=pointer,
                code="duplicate",
                message=f"{plan_id} is about {what}. To have both, send it with the overlap `allow`.",
            ),
        ),
    )


def adopt(goal: Goal, policy: Policy, claims: FileClaims | None) -> tuple[str, str] | None:
    """Return why a goal needs no plan, and the id of the plan that does the same; None if its policy adopts none."""
    if asked_of(goal, policy) is not Duplicates.ADOPT or not (known := found(goal, claims)):
        return None
    what, plan_id = known
    return f"{plan_id} is about {what}", plan_id


def is_settled(goal: Goal, policy: Policy, claims: FileClaims | None) -> bool:
    """Return whether another plan does the same, so that the policy `refuse` or `adopt` gives this goal no plan."""
    return bool(refuse(goal, policy, claims) or adopt(goal, policy, claims))


def keep_marks(plan_seed: PlanSeed, goal: Goal, _: Draft) -> PlanSeed:
    """Return the plan seed with the claims that the plan makes in addition to its files."""
    asked = tuple(each for each in asked_for(goal) if not each.startswith(JUST_MERGED))
    is_allowed = asked_of(goal, plan_seed.policy) is Duplicates.ALLOW
    return replace(plan_seed, same=tuple(each for each in asked if each == REVIEW) if is_allowed else asked)


def refuse_draft(plan_seed: PlanSeed, goal: Goal, draft: Draft) -> Rejected | None:
    """Refuse a draft if another plan that does the same came while this one was drafted."""
    refused = refuse(goal, plan_seed.policy, plan_seed.claims)
    return refused and replace(refused, findings=draft.findings, tokens=draft.tokens, read=draft.read)


def claim(unit: UnitOfWork, _: Sequence[PlannedStep]) -> None:
    """Claim the plan's goal and tests; if another plan has claimed them, the whole plan waits for that plan.

    It also waits while its repository has as many open changes as people can review.
    """
    claims, me = unit.snapshot.claims or FileClaims(), unit.snapshot.plan_id
    for mark in unit.snapshot.same:
        others = claims.of(mark)
        if mark != REVIEW:
            put(unit, mark, claims.mark(mark), WAITS * bool(others) + me)
        if others:
            keep_waiting(unit, {WHOLE_PLAN: [mark, last_of(others)]})


FEATURE = Feature(
    "duplicates",
    (SEED.row(keep_marks), REFUSE_DRAFT.row(refuse_draft), OPENED.row(claim)),
    is_idle=lambda _: True,
)
