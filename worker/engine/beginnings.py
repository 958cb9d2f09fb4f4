"""Where a plan begins that goes on from another one: with the commit that landed there last."""

from __future__ import annotations

from typing import Any

from redis import Redis

from schemas.base import StepId
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.outcome import Outcome
from schemas.stored import PlanHead
from tasks.rules.goal_cleaning import is_revision
from tasks.rules.strategy import Rejected
from tasks.rules.validation import reject
from worker.store.history import read_log
from worker.store.keys import Partition, PlanKeys, partition_of


def go_on(client: Redis, goal: Goal, partitions: int) -> Goal | Rejected:
    """Return the goal with the commit that it goes on from, if it goes on from a plan."""
    if goal.from_ is None:
        return goal
    plan_id, step_id = goal.from_.plan_id, goal.from_.step_id
    keys = Partition(partition_of(plan_id, partitions)).plan(plan_id)
    found: Any = client.hget(keys.plan, "head")
    head = PlanHead.decode(found) if found else None
    if head is None or head.tenant != goal.tenant:
        return _refuse(
            field_error("/from/plan_id", "unknown_plan", f"There is no plan {plan_id} of the tenant {goal.tenant}.")
        )
    if head.repo and goal.context.repo and head.repo != goal.context.repo:
        return _refuse(
            field_error("/from/plan_id", "another_repository", f"{plan_id} is a plan of another repository.")
        )
    if not (commit := _landed(client, keys, step_id)):
        what = f"nothing landed at {step_id} or before it" if step_id else "nothing landed"
        return _refuse(
            field_error("/from", "nothing_landed", f"Of {plan_id} {what}, as far as its controllers told a commit.")
        )
    context = goal.context.model_copy(update={"base_sha": commit, "repo": goal.context.repo or head.repo})
    return goal.model_copy(update={"context": context})


def _landed(client: Redis, keys: PlanKeys, step_id: StepId | None) -> str | None:
    """Find the last commit that landed, or that had when `step_id` was done; None where that never was."""
    commit: str | None = None
    for line in read_log(client, keys):
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
