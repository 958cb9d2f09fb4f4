"""Redis clients, made after the fork and for one use each (DESIGN.md section 3, "redis-py")."""

from __future__ import annotations

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.retry import Retry

from tasks.errors import PlannerError
from worker import sentinel

BLOCK_MARGIN_S = 5.0


class UnsafeRedis(PlannerError):
    """This Redis may lose what the planner promises to keep."""


class Connects:
    """Counts the connections of a client: whoever finds another number than before may speak to another server."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, connection: Connection) -> None:
        """Greet the server as always, and count."""
        self.count += 1
        connection.on_connect()


def connect(
    url: str, block_s: float = 0.0, patience_s: float = BLOCK_MARGIN_S, connects: Connects | None = None
) -> Redis:
    """Make a client that never repeats a call by itself: a lost reply would hide entries or apply twice.

    `block_s` is the longest that one of its calls blocks on the server, `patience_s` what is granted beyond. Needs
    hiredis, which redis-py then uses. Where the URL names sentinels it follows their master.
    """
    make = sentinel.connect if sentinel.is_watched(url) else Redis.from_url
    return make(
        url,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=block_s + patience_s,
        socket_connect_timeout=patience_s,
        health_check_interval=0,
        redis_connect_func=connects,
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
