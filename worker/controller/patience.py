"""How a controller stops, and how it waits for a Redis that is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from redis.exceptions import AuthenticationError, RedisError

log = logging.getLogger("planner.controller")
T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Abandoned(Exception):
    """The work in hand is not wanted any more; nothing is published."""


def patiently(call: Callable[[], T], stop: Event) -> T:
    """Return what `call` returns once Redis lets it, however long that takes; raises Abandoned on `stop`."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            return call()
        except AuthenticationError:
            raise  # waiting does not mend a password
        except RedisError as error:
            log.warning("redis_unavailable", extra={"error": str(error)})
        if stop.wait(pause):
            raise Abandoned("shutdown")
        pause = min(pause * 2, LONGEST_PAUSE_S)
