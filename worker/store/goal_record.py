"""The record of a goal: claimed for a plan, then given its verdict.

It lies in another slot than the goal's plan, so each is a call of its own.
"""

from __future__ import annotations

from typing import Any

from redis import Redis

from schemas.base import GoalVerdict
from worker.store import functions, keys

OPEN = (GoalVerdict.PENDING, GoalVerdict.NEEDS_INPUT)


def claim(client: Redis, goal_id: str, plan_id: str, digest: str, retention_s: int) -> tuple[str, str, str]:
    """Make the goal's record unless it exists, and return what stands there.

    That is the plan, the verdict and the digest of the body. Only the making is refused by a server whose memory is
    full.
    """
    key = keys.goal_id(goal_id)
    found: Any = client.hmget(key, "plan_id", "verdict", "digest")
    if None not in found:
        client.expire(key, retention_s)
        return found[0].decode(), found[1].decode(), found[2].decode()
    pipeline = client.pipeline(transaction=True)
    pipeline.hsetnx(key, "digest", digest)
    pipeline.hsetnx(key, "plan_id", plan_id)
    pipeline.hsetnx(key, "verdict", GoalVerdict.PENDING.value)
    pipeline.hsetnx(key, "reason", "")
    pipeline.expire(key, retention_s)
    pipeline.hmget(key, "plan_id", "verdict", "digest")
    plan, verdict, known = pipeline.execute()[-1]
    return plan.decode(), verdict.decode(), known.decode()


def settle(client: Redis, goal_id: str, verdict: str, reason: str, *before: GoalVerdict) -> bool:
    """Write the verdict in the place of one of `before`.

    Returns whether it was written. A full server takes it too.
    """
    call = ("FCALL", functions.SETTLE, 1, keys.goal_id(goal_id), str(verdict), reason, *map(str, before))
    return bool(functions.call(client, *call))
