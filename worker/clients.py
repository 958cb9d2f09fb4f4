"""Redis clients, made after the fork and for one use each (DESIGN.md section 3, "redis-py")."""

from __future__ import annotations

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tasks.errors import PlannerError

BLOCK_MARGIN_S = 5.0


class UnsafeRedis(PlannerError):
    """This Redis may lose what the planner promises to keep."""


def connect(url: str, block_s: float = 0.0) -> Redis:
    """Make a client that never repeats a call by itself: a lost reply would hide entries or apply twice.

    `block_s` is the longest that one of its calls blocks on the server. Needs hiredis, which redis-py then uses.
    """
    return Redis.from_url(
        url,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=block_s + BLOCK_MARGIN_S,
        socket_connect_timeout=BLOCK_MARGIN_S,
        health_check_interval=0,
    )


def check_safe(client: Redis) -> None:
    """Refuse a server that evicts keys or keeps no append-only file; raises UnsafeRedis.

    Asked by INFO, since managed servers forbid CONFIG.
    """
    info = client.info("everything")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnsafeRedis(
            f"Redis may evict keys (maxmemory-policy is {policy}): plans, locks and budgets could vanish. "
            "Set maxmemory-policy noeviction, or PLANNER_ALLOW_UNSAFE_REDIS=1 to go on all the same."
        )
    if not int(info.get("aof_enabled", 0)):
        raise UnsafeRedis(
            "Redis keeps no append-only file: a restart would lose plans and outcomes. "
            "Set appendonly yes, or PLANNER_ALLOW_UNSAFE_REDIS=1 to go on all the same."
        )
