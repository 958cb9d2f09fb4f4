"""The settings that all processes of a server share: the number of partitions, and the layout.

The first worker writes the number of partitions, and only `planner partitions` changes it. The layout is a number for
the form of records: a process refuses to work with a newer layout. A server with records or libraries from before
0.1.0, under names that are no longer used, is refused as well.
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

MOST = 256  # partitions with plans, because a plan's id contains one of so many buckets
PAGE = 1000
RECORD_OF_BEFORE, LIBRARY_OF_BEFORE = "planner:deployment", "planner_1"  # every server from before 0.1.0 has both


class WrongDeployment(RefusedRedis):
    """The settings of this process differ from the settings that its server stores."""

    def __init__(self, sentence: str) -> None:
        super().__init__("wrong_settings", sentence)


class ServerOfBefore(WrongDeployment):
    """The server has records of a planner from before 0.1.0."""

    HOLDS = "holds records or functions of a planner from before version 0.1.0, which no release reads"

    def __init__(self) -> None:
        cli = 'redis-cli -u "$PLANNER_REDIS_URL"'
        super().__init__(
            f"The server of PLANNER_REDIS_URL {self.HOLDS}. Empty it, which deletes all that is there: "
            f"`{cli} FLUSHDB && {cli} FUNCTION FLUSH`; or set PLANNER_REDIS_URL to another server. "
            "One that `planner up` started has another folder with `planner up --data-dir DIR`."
        )


def join(client: Redis, partitions: int) -> None:
    """Check that a worker with this number of partitions may use the server. Raises WrongDeployment with a sentence.

    If the server has no number and layout yet, writes both. It refuses that if a plan is in another partition than it
    would be with this number.
    """
    there, layout = _read(client)
    if there is None:
        if client.function_list(LIBRARY_OF_BEFORE):
            raise ServerOfBefore
        _check_plans(client, partitions)
        try:
            client.hsetnx(DEPLOYMENT, "partitions", partitions)
            client.hsetnx(DEPLOYMENT, "layout", LAYOUT)
        except OutOfMemoryError:  # the next worker writes them
            return
        there, layout = _read(client)
    _agree(there, layout, partitions)


def check(client: Redis, partitions: int | None) -> None:
    """Compare the server's layout and number of partitions with ours; None skips the number. Writes nothing.

    Raises WrongDeployment with a sentence. A server without these values is accepted, and a server that does not let
    this user read them. Libraries from before 0.1.0 are not looked for: only a worker may list functions.
    """
    _agree(*_read(client), partitions)


def partitions_of(client: Redis) -> int | None:
    """Return the number of partitions of the server; None if no worker has written it yet."""
    found: Any = client.hget(DEPLOYMENT, "partitions")
    return int(found) if found else None


def change(client: Redis, partitions: int) -> None:
    """Change the server's number of partitions. Raises WrongDeployment if it stores plans, or if messages wait."""
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
    """Return partitions and layout, None for a missing or unreadable one. Raises ServerOfBefore."""
    numbers: Any = None
    with suppress(NoPermissionError):
        numbers = client.hmget(DEPLOYMENT, "partitions", "layout")
        if not numbers[0] and client.exists(RECORD_OF_BEFORE):
            raise ServerOfBefore
    partitions, layout = (int(value) if value else None for value in numbers or (None, None))
    return partitions, layout


def _check_plans(client: Redis, partitions: int) -> None:
    """Raise WrongDeployment if a plan is in another partition than its id determines for this number."""
    for number, plan_id in plans(client):
        if (home := partition_of(plan_id, partitions)) != number:
            raise WrongDeployment(
                f"PLANNER_PARTITIONS is {partitions} here, which would have {plan_id} in partition {home}, and it is "
                f"in partition {number}: set PLANNER_PARTITIONS to the number that this server has been used with."
            )


def plans(client: Redis) -> Iterator[tuple[int, str]]:
    """Yield every plan of the server with its partition, for any number of partitions."""
    pipeline = client.pipeline(transaction=False)
    for number in range(MOST):
        pipeline.zcard(Partition(number).plans)
    for number, count in enumerate(pipeline.execute()):
        for start in range(0, count, PAGE):
            page: Any = client.zrange(Partition(number).plans, start, start + PAGE - 1)
            yield from ((number, plan_id.decode()) for plan_id in page)
