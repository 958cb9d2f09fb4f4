"""Finds the commit where a plan begins that continues another plan: the last commit that landed there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis import Redis

from schemas.base import StepId
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.outcome import Outcome
from tasks.rules.goal_cleaning import is_revision
from tasks.rules.strategy import Rejected
from tasks.rules.validation import reject
from worker.store.history import read_log
from worker.store.keys import Partition, partition_of
from worker.store.queries import Owner, owners


def go_on(client: Redis, goal: Goal, partitions: int) -> Goal | Rejected:
    """Return the goal with the commit of the plan that it continues, or its rejection.

    A goal that continues no plan is unchanged.
    """
    if goal.from_ is None:
        if goal.delivery and (goal.delivery.onto or goal.delivery.again):
            return _refuse(field_error("/from", "no_beginning", "A delivery onto a plan needs `from`."))
        return goal
    plan_id = goal.from_.plan_id
    owner = owners(client, partitions, [plan_id]).get(plan_id)
    return begin(goal, owner, read_log(client, Partition(partition_of(plan_id, partitions)).plan(plan_id)))


def begin(goal: Goal, owner: Owner | None, lines: Iterable[dict[str, Any]]) -> Goal | Rejected:
    """Return the goal with the last landed commit of the plan that it continues, or its rejection. Pure.

    `owner` and `lines` are the owner and the log lines of that plan.
    """
    if goal.from_ is None:
        return goal
    plan_id, step_id = goal.from_.plan_id, goal.from_.step_id
    onto = goal.delivery.onto if goal.delivery else None
    if onto not in (None, plan_id):
        return _refuse(field_error("/delivery/onto", "another_plan", f"{onto} is not the plan {plan_id} of `from`."))
    if goal.delivery and goal.delivery.again and not onto:
        return _refuse(field_error("/delivery/again", "no_branch", "A branch lands again with `onto`, which names it."))
    if owner is None or owner.tenant != goal.tenant:
        return _refuse(
            field_error("/from/plan_id", "unknown_plan", f"There is no plan {plan_id} of the tenant {goal.tenant}.")
        )
    if owner.repo and goal.context.repo and owner.repo != goal.context.repo:
        return _refuse(
            field_error("/from/plan_id", "another_repository", f"{plan_id} is a plan of another repository.")
        )
    if onto and goal.context.base_sha and is_revision(goal.context.base_sha):
        return goal  # at the commit of that plan's branch
    if not (commit := _landed(lines, step_id)):
        where = f" at {step_id} or before it" if step_id else ""
        return _refuse(
            field_error("/from", "nothing_landed", f"No controller reported a landed commit of {plan_id}{where}.")
        )
    context = goal.context.model_copy(update={"base_sha": commit, "repo": goal.context.repo or owner.repo})
    return goal.model_copy(update={"context": context})


def _landed(lines: Iterable[dict[str, Any]], step_id: StepId | None) -> str | None:
    """Return the last landed commit, or the last one when `step_id` was done; None if there is no such commit."""
    commit: str | None = None
    for line in lines:
        done = {step for step, _, after in line["moves"] if after == "DONE"}
        for what, *said in line["in"]:
            if what == "outcome" and said[2]["step_id"] in done:
                commit = _commit_of(said[2]) or commit
        if step_id in done:
            return commit
    return None if step_id else commit


def _commit_of(told: dict[str, Any]) -> str | None:
    commit = Outcome.model_validate(told).commit
    return commit if commit and is_revision(commit) else None


def _refuse(error: FieldError) -> Rejected:
    return reject(error.code, (error,))
