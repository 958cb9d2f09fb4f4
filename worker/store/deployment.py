"""What all processes that share a server agree on: partitions and layout.

The first worker writes the number of partitions; nobody changes that but `planner partitions`. The layout is a number
that says how records are stored: a process that finds a newer one than it reads refuses to work. A server that holds
records or libraries from before 0.1.0, under names that nothing has any more, is refused as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import NoPermissionError, OutOfMemoryError

from schemas.stored.step import LAYOUT
from worker.store.clients import RefusedRedis
from worker.store.keys import COMMANDS, DEPLOYMENT, GOALS, Partition, partition_of

MOST = 256  # partitions that hold plans, since a plan's id names one of so many buckets
PAGE = 1000
RECORD_OF_BEFORE, LIBRARY_OF_BEFORE = "planner:deployment", "planner_1"  # every server from before 0.1.0 has both


class WrongDeployment(RefusedRedis):
    """This process does not agree with those that share its server."""

    def __init__(self, sentence: str) -> None:
        super().__init__("wrong_settings", sentence)


class ServerOfBefore(WrongDeployment):
    """The server holds what a planner from before 0.1.0 has left there."""

    HOLDS = "holds records or functions of a planner from before version 0.1.0, which no release reads"

    def __init__(self) -> None:
        cli = 'redis-cli -u "$PLANNER_REDIS_URL"'
        super().__init__(
            f"The server of PLANNER_REDIS_URL {self.HOLDS}. Empty it, which deletes all that is there: "
            f"`{cli} FLUSHDB && {cli} FUNCTION FLUSH`; or set PLANNER_REDIS_URL to another server. "
            "One that `planner up` started has another folder with `planner up --data-dir DIR`."
        )


def join(client: Redis, partitions: int) -> None:
    """Take part as a worker with so many partitions.

    Raises WrongDeployment with a sentence where that cannot be. Writes both numbers where there are none, if the plans
    lie where that many partitions have them. One round trip where they are there.
    """
    there, layout = _read(client)
    if there is None:
        if client.function_list(LIBRARY_OF_BEFORE):
            raise ServerOfBefore
        _check_plans(client, partitions)
        try:
            client.hsetnx(DEPLOYMENT, "partitions", partitions)
            client.hsetnx(DEPLOYMENT, "layout", LAYOUT)
        except OutOfMemoryError:  # whoever looks next time writes them
            return
        there, layout = _read(client)
    _agree(there, layout, partitions)


def check(client: Redis, partitions: int | None) -> None:
    """Compare the numbers of the server with ours, without that of partitions for None; writes nothing.

    Raises WrongDeployment with a sentence. A server without them, and one that does not let this user read them, agrees
    with everybody. Only a worker, which may list functions, looks for libraries of before.
    """
    _agree(*_read(client), partitions)


def partitions_of(client: Redis) -> int | None:
    """Return how many partitions the server has; None where no worker has written that yet."""
    found: Any = client.hget(DEPLOYMENT, "partitions")
    return int(found) if found else None


def change(client: Redis, partitions: int) -> None:
    """Give the server another number of partitions.

    Raises WrongDeployment where it has plans, or messages wait.
    """
    if found := next(plans(client), None):
        raise WrongDeployment(
            f"This server has plans, such as {found[1]}, and a plan stays in its partition: wait until the last one "
            "has ended and PLANNER_RETENTION_DAYS have passed, or take an empty server."
        )
    streams = [
        GOALS,
        COMMANDS,
        *(stream for n in range(MOST) for stream in (Partition(n).outcomes, Partition(n).commands)),
    ]
    pipeline = client.pipeline(transaction=False)
    for stream in streams:
        pipeline.xlen(stream)
    if waiting := [stream for stream, length in zip(streams, pipeline.execute(), strict=True) if length]:
        raise WrongDeployment(f"Messages wait in {', '.join(waiting[:5])}: let the workers finish, then stop them.")
    client.hset(DEPLOYMENT, "partitions", partitions)


def _agree(there: int | None, layout: int | None, partitions: int | None) -> None:
    if layout is not None and layout > LAYOUT:
        raise WrongDeployment(
            f"The records on this server have layout {layout}, and this version reads up to {LAYOUT}: "
            "install the version that the other workers have."
        )
    if None not in (there, partitions) and there != partitions:
        raise WrongDeployment(
            f"PLANNER_PARTITIONS is {partitions} here, and this server has {there}: set PLANNER_PARTITIONS={there}, "
            "or see `planner partitions --help` for how a server is given another number."
        )


def _read(client: Redis) -> tuple[int | None, int | None]:
    """Read partitions and layout, None for what is not there or may not be read; raises ServerOfBefore."""
    numbers: Any = None
    with suppress(NoPermissionError):
        numbers = client.hmget(DEPLOYMENT, "partitions", "layout")
        if not numbers[0] and client.exists(RECORD_OF_BEFORE):
            raise ServerOfBefore
    partitions, layout = (int(value) if value else None for value in numbers or (None, None))
    return partitions, layout


def _check_plans(client: Redis, partitions: int) -> None:
    """Raise WrongDeployment where a plan lies in another partition than that number has it."""
    for number, plan_id in plans(client):
        if (home := partition_of(plan_id, partitions)) != number:
            raise WrongDeployment(
                f"PLANNER_PARTITIONS is {partitions} here, which would have {plan_id} in partition {home}, and it is "
                f"in partition {number}: set PLANNER_PARTITIONS to the number that this server has been used with."
            )


def plans(client: Redis) -> Iterator[tuple[int, str]]:
    """Yield every plan that the server has with its partition, whatever their number is."""
    pipeline = client.pipeline(transaction=False)
    for number in range(MOST):
        pipeline.zcard(Partition(number).plans)
    for number, count in enumerate(pipeline.execute()):
        for start in range(0, count, PAGE):
            page: Any = client.zrange(Partition(number).plans, start, start + PAGE - 1)
            yield from ((number, plan_id.decode()) for plan_id in page)
