"""The first line of a plan's log: digests of stored data, and in full the other data that planning read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas import codec
from schemas.base import GoalKind
from schemas.goal import Goal
from schemas.step import pack_step
from tasks.base.log_chain import digest_line
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import RECALLS
from tasks.rules.strategy import Draft, Drafted, Setting
from tasks.text.forbidden_paths import FORBIDDEN
from tasks.toolchain.catalogue import Catalogue, keep_contracts


def setting_data(goal: Goal, catalogue: Catalogue, setting: Setting) -> dict[str, Any]:
    """Return the data that planning read in addition to the goal, without defaults.

    Long parts are digests: the operator's contracts, forbidden names, a drafter's answers.
    """
    told: dict[str, Any] = {}
    if setting.drafter != "none":
        told["drafter"] = setting.drafter
    if setting.options and goal.kind is not GoalKind.TASK:  # templates of tasks read no options
        told["options"] = dict(setting.options)
    if setting.history:
        told["recalled"] = dict(setting.history)
    if setting.learned:
        told["learned"] = dict(setting.learned)
    if setting.cached_from:
        told["cached_from"] = setting.cached_from
    if setting.summaries:
        told["summaries"] = digest_line(codec.canonical([each.model_dump() for each in setting.summaries]))
    if setting.drafted:
        told["drafts"] = [_tell_draft(said) for said in setting.drafted]
    if setting.forbidden.pattern != FORBIDDEN.pattern:
        told["forbidden"] = digest_line(setting.forbidden.pattern.pattern.encode())
    if contracts := keep_contracts(catalogue, None):
        told["tools"] = digest_line(codec.canonical(contracts))
    return told


def _tell_draft(said: Drafted) -> dict[str, Any]:
    told: dict[str, Any] = {"tokens": said.tokens, "error": said.error}
    if said.output is not None:  # as it arrived: it may have larger numbers than a plan can store
        told["output"] = digest_line(codec.dump_unbounded(said.output, sort_keys=True))
    return told


def birth_data(unit: UnitOfWork, draft: Draft) -> Mapping[str, Any]:
    """Return how an announced plan began: digests of stored data, and all other data in full."""
    snapshot, plan = unit.snapshot, unit.plan
    told: dict[str, Any] = {
        "plan_id": snapshot.plan_id,
        "goal_id": plan.head.goal_id,
        "goal": digest_line(unit.extra["goal"]),
        "reply_to": snapshot.reply_to,
        "created": plan.times["created"],
        "policy_version": plan.head.policy_version,
        "limits": dict(plan.head.limits),
    }
    if plan.times["down"]:
        told["down"] = plan.times["down"]
    told |= {recall.name: known for recall in RECALLS if (known := recall.known(plan))}
    if plan.head.cache:
        told["cache"] = plan.head.cache
    if draft.read:
        told["read"] = draft.read
    if draft.steps:
        told["steps"] = {
            "count": len(draft.steps),
            "digest": digest_line(b"\n".join(map(pack_step, draft.steps))),
        }
    if draft.tokens:
        told["tokens"] = draft.tokens
    if draft.counted:
        told["counted"] = [draft.counted, draft.seen]
    if draft.question:
        told["question"] = [draft.question.kind, draft.question.questions, draft.question.document]
    if draft.state is not None:
        told["strategy_state"] = {"state": draft.state, "document": draft.document}
    return told
