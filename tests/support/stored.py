"""Reads the plans and goals of a server as an observer does."""

from __future__ import annotations

from collections import Counter
from typing import Any

from redis import Redis

from schemas import codec
from schemas.stored import StepStatus
from worker.store import keys
from worker.store.keys import GROUP, Partition

P0 = Partition(0)
QUEUE = P0.steps("default")


def plans(redis: Redis) -> list[str]:
    found: Any = redis.zrange(P0.plans, 0, -1)
    return [plan_id.decode() for plan_id in found]


def state(redis: Redis, plan_id: str) -> str:
    found: Any = redis.hget(P0.plan(plan_id).plan, "state")
    return str(found.decode())


def moves(redis: Redis, plan_id: str) -> list[list[str]]:
    lines: Any = redis.lrange(P0.plan(plan_id).log, 0, -1)
    return [move for line in lines for move in codec.loads(line)["moves"]]


def dead(redis: Redis, stream: str = P0.dead) -> list[dict[str, Any]]:
    found: Any = redis.xrange(stream)
    return [{**codec.loads(fields[b"problem"]), "data": fields[b"data"]} for _, fields in found]


def stats(redis: Redis) -> dict[str, int]:
    found: Any = redis.hgetall(P0.stats)
    return {name.decode(): int(count) for name, count in found.items()}


def waiting(redis: Redis, stream: str = P0.outcomes, group: str = GROUP) -> tuple[int, int]:
    """Return the number of entries of a stream, and the number that are read but not acknowledged."""
    pending: Any = redis.xpending(stream, group)
    return int(redis.xlen(stream)), int(pending["pending"])


def step_states(redis: Redis, plan_id: str) -> Counter[str]:
    """Count the states of a plan's steps, and their attempts."""
    found: Any = redis.hvals(P0.plan(plan_id).status)
    return Counter(f"{status.state} after {status.attempt}" for status in map(StepStatus.decode, found))


def nothing_waits(redis: Redis) -> bool:
    """Return whether every stream is empty and no entry is pending."""
    streams = (keys.GOALS, P0.outcomes, QUEUE)
    pending = [redis.xpending(stream, GROUP)["pending"] for stream in (keys.GOALS, P0.outcomes)]
    return not any(redis.xlen(stream) for stream in streams) and not any(pending)


def applied(redis: Redis, partitions: int) -> list[int]:
    """Return the number of applied outcomes of each partition."""
    found: list[Any] = [redis.hget(Partition(number).stats, "applied") for number in range(partitions)]
    return [int(count or 0) for count in found]
