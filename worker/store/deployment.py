"""What all processes that share a server agree on: partitions and layout.

The first worker writes the number of partitions; nobody changes that but `planner partitions`. The layout is a number
that says how the records of new plans are stored, and workers that cannot read it refuse to work. A new server has the
newest; one that is in use keeps its own, so that workers of older versions go on beside newer ones, until somebody
raises it (`planner layout`). Plans keep the layout that they were made in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError

from schemas.stored_step import LAYOUT
from worker.store.clients import RefusedRedis
from worker.store.keys import COMMANDS, DEPLOYMENT, GOALS, GROUP, Partition, partition_of

READS = LAYOUT  # the newest layout that this version reads
NEEDS = 1  # the oldest layout whose workers may work beside this version
MOST = 256  # partitions that hold plans, since a plan's id names one of so many buckets
PAGE = 1000


class WrongDeployment(RefusedRedis):
    """This process does not agree with those that share its server."""

    def __init__(self, sentence: str) -> None:
        super().__init__("wrong_settings", sentence)


def join(client: Redis, partitions: int) -> None:
    """Take part as a worker with so many partitions.

    Raises WrongDeployment with a sentence where that cannot be. Writes both numbers where there are none: on a new
    server, or one that workers of an older version have used, if its plans lie where that many partitions have them.
    One round trip where they are there.
    """
    there, layout = _read(client)
    if there is None or (layout or 0) < NEEDS:
        if there is None:
            _check_plans(client, partitions)
        try:
            client.hsetnx(DEPLOYMENT, "partitions", partitions)
            if layout is None:
                client.hsetnx(DEPLOYMENT, "layout", READS if there is None and not _was_used(client) else NEEDS)
            else:
                client.hset(DEPLOYMENT, "layout", NEEDS)
        except OutOfMemoryError:  # whoever looks next time writes them
            return
        there, layout = _read(client)
    _agree(there, layout, partitions)


def check(client: Redis, partitions: int) -> None:
    """Compare the numbers of the server with ours, which writes nothing.

    Raises WrongDeployment with a sentence. A server without them, and one that does not let this user read them, agrees
    with everybody.
    """
    with suppress(NoPermissionError):
        _agree(*_read(client), partitions)


def partitions_of(client: Redis) -> int | None:
    """Tell how many partitions the server has; None where no worker has written that yet."""
    return _read(client)[0]


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


def layout_of(client: Redis) -> int | None:
    """Tell by which layout the server stores new plans; None where no worker has written that yet."""
    return _read(client)[1]


def raise_layout(client: Redis, layout: int) -> None:
    """Have new plans stored by a newer layout, which workers that cannot read it must not work on.

    Raises WrongDeployment where this version does not know it, or the server is further.
    """
    there, now = _read(client)
    if there is None:
        raise WrongDeployment("No worker has used this server yet: the first one gives it the newest layout it knows.")
    if layout > READS:
        raise WrongDeployment(f"This version knows layouts up to {READS}.")
    if now is not None and layout < now:
        raise WrongDeployment(f"The server has layout {now}, and none goes back: plans are stored by it.")
    client.hset(DEPLOYMENT, "layout", layout)


def _agree(there: int | None, layout: int | None, partitions: int) -> None:
    if layout is not None and layout > READS:
        raise WrongDeployment(
            f"The records on this server have layout {layout}, and this version reads up to {READS}: "
            "install the version that the other workers have."
        )
    if there is not None and there != partitions:
        raise WrongDeployment(
            f"PLANNER_PARTITIONS is {partitions} here, and this server has {there}: set PLANNER_PARTITIONS={there}, "
            "or see `planner partitions --help` for how a server is given another number."
        )


def _read(client: Redis) -> tuple[int | None, int | None]:
    found: Any = client.hmget(DEPLOYMENT, "partitions", "layout")
    partitions, layout = (int(value) if value else None for value in found)
    return partitions, layout


def _was_used(client: Redis) -> bool:
    """Whether a worker of any version has read goals here; that some wait says nothing of workers."""
    try:
        groups: Any = client.xinfo_groups(GOALS)
    except ResponseError:  # there is no such stream
        return False
    return any(group["name"] == GROUP.encode() for group in groups)


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
