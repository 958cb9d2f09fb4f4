"""The verdict on a goal. It lies in another slot than the goal's plan, so it is written by a call of its own."""

from __future__ import annotations

from redis import Redis

from schemas.base import GoalVerdict
from worker.store import functions, keys

OPEN = (GoalVerdict.PENDING, GoalVerdict.NEEDS_INPUT)


def settle(client: Redis, goal_id: str, verdict: str, reason: str, *before: GoalVerdict) -> bool:
    """Write the verdict in the place of one of `before`; returns whether it was written. A full server takes it too."""
    call = ("FCALL", functions.SETTLE, 1, keys.goal_id(goal_id), str(verdict), reason, *map(str, before))
    return bool(functions.call(client, *call))
