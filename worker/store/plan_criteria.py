"""The criteria of a plan that has ended, each with its check, for the record of its goal."""

from __future__ import annotations

from typing import Any

from redis import Redis

from schemas import codec
from schemas.base import GoalKind
from schemas.plan import CriterionView
from tasks.features.unverified import tools_of
from tasks.strategies.criteria import describe_criteria
from tasks.toolchain.catalogue import catalogue_of
from worker.store.keys import PlanKeys
from worker.store.queries import read_steps

KINDS = frozenset({GoalKind.GAP_REPORT, GoalKind.EVOLUTION, GoalKind.REVIEWED_PLAN})  # that have criteria
MOST = 50


def read(client: Redis, kind: str, k: PlanKeys) -> tuple[CriterionView, ...]:
    """Return the first MOST criteria of a plan; empty, without a read, if plans of this `kind` have none."""
    if kind not in KINDS:
        return ()
    found: Any = client.hmget(k.plan, "document", "strategy_state", "head")
    document, strategy_state, head = found
    known = codec.loads(strategy_state)["document"] if strategy_state else codec.loads(document or b"null")
    planned = [each for _, _, each in sorted(read_steps(client, k), key=lambda each: each[0])]
    catalogue = catalogue_of(codec.loads(head or b"{}").get("tools", ()))
    return describe_criteria(known, tools_of(planned), catalogue)[:MOST]
