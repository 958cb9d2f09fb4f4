"""How a controller stops, and how it waits for a Redis that is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from worker.sandbox.process import Abandoned

__all__ = ["Abandoned", "patiently"]

log = logging.getLogger("planner.controller")
T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


def patiently(call: Callable[[], T], stop: Event) -> T:
    """Return what `call` returns once Redis lets it, however long that takes; raises Abandoned on `stop`."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            return call()
        except (AuthenticationError, NoPermissionError):
            raise  # waiting mends neither a password nor a right
        except RedisError as error:
            log.warning("redis_unavailable", extra={"error": str(error)})
        if stop.wait(pause):
            raise Abandoned("shutdown")
        pause = min(pause * 2, LONGEST_PAUSE_S)
