"""The goal of an ended plan, made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from schemas.plan import PlanSummary
from tasks.base.errors import PlannerError
from tasks.plan.lifecycle import PLAN_ENDS

STEPS = "/steps"
FOLLOWED = frozenset({"repo", "language", "test_command", "workdir"})  # of a context
BEFORE = "the plan before this one"  # the name of a document
NOTHING: Mapping[str, int] = MappingProxyType({})


class NoRetry(PlannerError):
    """No goal can be made from the kept parts of a plan; `code` has the reason."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Retry(NamedTuple):
    """A new goal, and JSON pointers to the parts that the old goal had and that are no longer stored."""

    body: dict[str, Any]
    left_out: list[str]


def retry_of(plan_id: str, state: str, kept: Mapping[str, Any], left_out: Sequence[str], goal_id: str) -> Retry:
    """Return a new goal like the stored goal `kept` of an ended plan. Raises NoRetry."""
    if state not in PLAN_ENDS:
        detail = f"{plan_id} is {state}: only a plan that has ended is retried. `planner cancel` ends it."
        raise NoRetry("plan_not_ended", detail)
    if STEPS in left_out:
        detail = f"The steps that the goal of {plan_id} supplied are not stored any more: submit it again."
        raise NoRetry("goal_not_kept", detail)
    context = kept.get("context", {})
    missing = [each for each in left_out if not context.get(each.removeprefix("/context/"))]
    return Retry({**kept, "goal_id": goal_id, "retry_of": plan_id}, missing)


def with_changes(
    body: Mapping[str, Any],
    *,
    limits: Mapping[str, int] = NOTHING,
    base_sha: str | None = None,
    allow: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a goal with other limits, another base commit, or more files that may change, if they are given."""
    changed: dict[str, Any] = {**body}
    if limits:
        changed["limits"] = {**(body.get("limits") or {}), **limits}
    if base_sha is not None:
        changed.pop("from", None)
        context = {name: value for name, value in body.get("context", {}).items() if name != "instructions"}
        changed["context"] = {**context, "base_sha": base_sha}
    if allow:
        changed["allowed_files"] = list(dict.fromkeys((*body.get("allowed_files", ()), *allow)))
    return changed


def follow_up_of(plan: PlanSummary, kept: Mapping[str, Any], goal: str, goal_id: str, files: Sequence[str]) -> Retry:
    """Return a goal that continues the landed changes of an ended plan. Raises NoRetry.

    It has the repository, files and context of the plan's goal.
    """
    if plan.state not in PLAN_ENDS:
        detail = f"{plan.plan_id} is {plan.state}: a follow-up goes on from a plan that has ended."
        raise NoRetry("plan_not_ended", detail)
    context = {name: value for name, value in kept.get("context", {}).items() if name in FOLLOWED}
    documents = {
        **kept.get("context", {}).get("documents", {}),
        BEFORE: f"A plan before this one was asked: {plan.goal}",
    }
    body = {
        "goal": goal,
        "goal_id": goal_id,
        "tenant": plan.tenant,
        "allowed_files": list(dict.fromkeys((*kept.get("allowed_files", ()), *files))),
        "context": {**context, "documents": documents},
        "from": {"plan_id": plan.plan_id},
        **{name: kept[name] for name in ("constraints", "queue", "approvals", "delivery") if kept.get(name)},
    }
    return Retry(body, [])
