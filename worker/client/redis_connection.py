"""A connection to the planner's Redis, with its errors as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.exceptions import BusyLoadingError, NoPermissionError, OutOfMemoryError, RedisError
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong

from worker.client.trouble import Away, NoRight, Refused, Trouble, WrongUse
from worker.settings.settings import Settings
from worker.store import deployment
from worker.store.clients import RefusedRedis, check_version, connect, place, refusal

MAKE_ROOM = "`planner doctor` shows its use. `planner dead drop`, `planner halt` or a larger maxmemory free memory."


@contextmanager
def opened(settings: Settings, block_s: float = 0.0, *, agreed: bool = True) -> Iterator[Redis]:
    """Connect to PLANNER_REDIS_URL while the block lasts. Raises Trouble, also for errors inside the block.

    With `agreed` the server must have the number of partitions in PLANNER_PARTITIONS.
    """
    try:
        client = connect(settings.redis_url, block_s)
    except ValueError as error:
        raise WrongUse.of("wrong_settings", f"PLANNER_REDIS_URL: {error}") from error
    with asked(settings.redis_url), client:
        check_version(client)
        deployment.check(client, settings.partitions if agreed else None)
        yield client


@contextmanager
def asked(url: str) -> Iterator[None]:
    """Turn errors of Redis inside the block into a Trouble."""
    try:
        yield
    except deployment.WrongDeployment as error:
        raise WrongUse.of("wrong_settings", str(error)) from error
    except (RedisError, RefusedRedis) as error:
        trouble = _trouble(error, url)
        trouble.event = "redis_unavailable"
        raise trouble from error


def _trouble(error: Exception, url: str) -> Trouble:
    where = place(url)
    if why := refusal(error, url):
        return (NoRight if isinstance(error, NoPermissionError) else Refused).of(why.code, str(why))
    if isinstance(error, OutOfMemoryError):
        sentence = f"Redis at {where} takes nothing new: its memory is full. {MAKE_ROOM}"
        return Trouble.of("out_of_memory", sentence)
    if not isinstance(error, NoConnection | TookTooLong):
        return Trouble.of("redis_refused", f"Redis at {where} refused: {error}")
    if isinstance(error, BusyLoadingError):
        away = Away.of("redis_loading", f"Redis at {where} is reading its data: try again soon.")
    else:
        hint = "Start one with `planner up`, or set PLANNER_REDIS_URL."
        away = Away.of("no_redis", f"No Redis answers at {where} ({error}). {hint}")
    away.who, away.why = f"Redis at {where}", str(error)
    return away
