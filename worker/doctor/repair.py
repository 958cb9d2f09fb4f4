"""Mending: a repair is applied while its plan is as it was when the finding was made, or not at all."""

from __future__ import annotations

from typing import Any

from redis import Redis
from redis.exceptions import OutOfMemoryError, WatchError

from worker.doctor.finding import Repair

TRIES = 20  # a worker that looks at the plan meanwhile disturbs us, though it need not change anything


def mend(client: Redis, repair: Repair) -> bool:
    """Apply a repair; returns whether that was done. False: the plan has changed, look again; or the server is full.

    Nothing of the plan's version moves: decisions that are under way stay right, for a repair only gives back what
    they take as given.
    """
    for _ in range(TRIES):
        try:
            return _try(client, repair)
        except OutOfMemoryError:  # deletes and expiries pass, but on Redis 7.0; what adds has to wait for room
            return False
        except WatchError:
            continue
    return False


def _try(client: Redis, repair: Repair) -> bool:
    with client.pipeline(transaction=True) as pipeline:
        if repair.fence:
            pipeline.watch(repair.fence)
            found: Any = pipeline.hget(repair.fence, "version")
            if (None if found is None else int(found)) != repair.version:
                return False
            pipeline.multi()
        for command in repair.commands:
            pipeline.execute_command(*command)
        pipeline.execute()
    return True
