"""The record of a goal: claimed for a plan, then with its verdict, then with the end of the plan.

It is in another slot than the goal's plan, so each change is a separate call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis
from redis.client import Pipeline

from schemas import codec
from schemas.base import GoalVerdict
from schemas.envelope import Problem
from schemas.plan import CriterionView
from schemas.stored import PlanRecord
from schemas.times import rfc3339
from tasks.base.errors import Overtaken
from worker.store import delivered_changes, functions
from worker.store.keys import Partition, goal_id

OPEN = (GoalVerdict.PENDING, GoalVerdict.NEEDS_INPUT)
LIVES_S = 366 * 86_400  # beyond the retention, while its plan has not ended: paused plans may wait for long
FORGET_AFTER_S = 60  # as in commit.lua
SHOWN_CHARS = 1000  # of the reason for a plan's end


def read(client: Redis, key: str) -> tuple[str, str, str] | None:
    """Return plan, verdict and digest of the body; None without a record of a readable goal."""
    found: Any = client.hmget(key, "plan_id", "verdict", "digest", "errors")
    *known, errors = found
    if None in known or errors is not None:
        return None
    plan_id, verdict, digest = known
    return plan_id.decode(), verdict.decode(), digest.decode()


def claim(client: Redis, key: str, plan_id: str, digest: str, retention_s: int) -> tuple[str, str, str]:
    """Create the goal's record unless it exists. Returns the record as `read` does.

    A server with full memory refuses only the creation.
    """
    if known := read(client, key):
        client.expire(key, retention_s, gt=True)  # the record of a live plan is kept for longer
        return known
    made = functions.call_or_load(client, *claim_call(key, plan_id, digest, retention_s))
    return made[0].decode(), made[1].decode(), made[2].decode()


def claim_call(key: str, plan_id: str, digest: str, retention_s: int, *, once: bool = False) -> tuple[Any, ...]:
    """Return the command that creates a goal's record unless it exists, and replies with the record.

    A record of a refusal is replaced, but not with `once`, for a goal that is never sent again.
    """
    return ("FCALL", functions.CLAIM, 1, key, plan_id, digest, retention_s, *(("once",) if once else ()))


def hold(client: Redis, key: str, stream: str, entry_id: bytes) -> bool:
    """Record `entry_id` of `stream` as the entry that a goal's plan is drafted for.

    Returns False if another entry of the same goal is recorded and still on the stream. Raises Overtaken if the record
    has expired: a write would create a record without expiry.
    """

    def write(pipeline: Pipeline) -> None:
        found: Any = pipeline.hmget(key, "plan_id", "entry")
        plan_id, held = found
        if plan_id is None:
            raise Overtaken(f"the record {key} has expired")
        is_anothers = held not in (None, entry_id) and pipeline.xrange(stream, held, held)
        pipeline.multi()
        if not is_anothers:  # or that one is dead, and was sent again
            pipeline.hset(key, "entry", entry_id)

    # Of several that find a dead entry there one writes, and the others look again.
    return bool(client.transaction(write, key))


def refuse(client: Redis, key: str, problem: Problem, retention_s: int, plan_id: str = "") -> bool:
    """Record the problem of a goal that cannot be read or planned. Returns whether it was written.

    An existing record is kept, unless it waits for the plan `plan_id`. The new record has no digest, so that the
    corrected goal, or the same one again, can replace it. A server with full memory refuses the write.
    """
    errors = codec.dumps([error.model_dump() for error in problem.errors])
    return bool(functions.call(client, "FCALL", functions.REFUSE, 1, key, problem.code, errors, retention_s, plan_id))


def settle(
    client: Redis,
    goal: tuple[str, str],
    plan_id: str,
    verdict: str,
    reason: str,
    retention_s: int,
    *before: GoalVerdict,
) -> bool:
    """Replace the verdict in the record of `goal` (id, tenant), if it is one of `before` and belongs to this plan.

    Returns whether it was replaced. A server with full memory accepts the write.
    """
    return bool(functions.call(client, *settle_call(goal, plan_id, verdict, reason, retention_s, *before)))


def settle_call(
    goal: tuple[str, str], plan_id: str, verdict: str, reason: str, retention_s: int, *before: GoalVerdict
) -> tuple[Any, ...]:
    """Return the command of `settle`, which replies 1 if it has written."""
    kept_s = retention_s + (LIVES_S if verdict in (GoalVerdict.PLANNED, GoalVerdict.NEEDS_INPUT) else 0)
    return ("FCALL", functions.SETTLE, 1, goal_id(*goal), plan_id, str(verdict), reason, kept_s, *map(str, before))


def conclude(
    partition: Partition,
    plan_id: str,
    record: PlanRecord,
    now: int,
    retention_s: int,
    criteria: Sequence[CriterionView] = (),
) -> list[tuple[Any, ...]]:
    """Return the commands that write a plan's end into its goal's record, and then confirm that.

    Until the confirmation, the timer of the plan expires soon after its end (commit.lua), and the next sweep writes the
    end again. The record expires with the plan.
    """
    ended = record.times["ended"]
    left_s = max(1, (ended - now) // 1000 + retention_s)
    fields = ["state", record.state, "ended_at", rfc3339(ended)]
    if halt := record.halt:
        fields += ["halt_rule", str(halt["rule"]), "halt_reason", str(halt["reason"])[:SHOWN_CHARS]]
    if doubt := record.doubt:
        fields += ["doubt", doubt[:SHOWN_CHARS]]
    if criteria:
        shown = [{"text": each.text[:SHOWN_CHARS], "checked_by": each.checked_by} for each in criteria]
        fields += ["criteria", codec.dumps(shown).decode()]
    for name, value in record.delivery.outcome.items():
        fields += [name, value[:SHOWN_CHARS] if name == "undelivered" else value]
    key = goal_id(record.head.goal_id, record.head.tenant)
    forget = ended + 1000 * (retention_s + FORGET_AFTER_S)
    follow = delivered_changes.follow_call(plan_id, record)
    return [
        ("FCALL", functions.CONCLUDE, 1, key, plan_id, left_s, *fields),
        *([follow] if follow else []),
        ("FCALL", functions.REMIND, 1, partition.timers, forget, 0, plan_id),
    ]
