"""The leases by which workers own partitions, and the list of those workers, with their versions.

A lease spares work and guards nothing: whoever commits to a plan is fenced by its version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Literal, NamedTuple

from redis import Redis
from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError

from worker.host.code_version import CODE_VERSION
from worker.store import functions
from worker.store.clients import now_ms
from worker.store.functions import MISSING, FunctionsMissing
from worker.store.keys import WORKERS, Partition, worker_version

LEASE_MS = 5000  # for which a dead worker's partitions wait for another one
FRESH_MS = 1000  # by which a lease may be older than the look that was told of it; as owners.lua has it

Act = Literal["look", "take", "give"]


class WorkerThere(NamedTuple):
    """A worker that is there, with its version; None where a full server did not keep that."""

    token: str
    version: str | None


def register(client: Redis, token: str, *, leaves: bool = False) -> frozenset[str]:
    """Note that the worker `token` is there, and its version, or that it leaves.

    Returns all workers that are there.
    """
    with _whole(client):
        found = functions.call(client, "FCALL", functions.REGISTER, 1, WORKERS, token, LEASE_MS, int(leaves))
    if leaves:
        client.delete(worker_version(token))
    else:
        with suppress(OutOfMemoryError):  # a full server: it is told again with the next look
            client.set(worker_version(token), CODE_VERSION, px=LEASE_MS)
    return frozenset(each.decode() for each in found)


def workers(client: Redis) -> list[WorkerThere]:
    """List the workers that are there; none to a user who may not know."""
    try:
        found: Any = client.zrange(WORKERS, now_ms(client) - LEASE_MS, "+inf", byscore=True)
        tokens = sorted(each.decode() for each in found)
        told: Any = client.mget([worker_version(token) for token in tokens]) if tokens else ()
    except NoPermissionError:
        return []
    return [WorkerThere(token, said.decode() if said else None) for token, said in zip(tokens, told, strict=True)]


def hold(client: Redis, token: str, acts: Mapping[int, Act]) -> dict[int, str]:
    """Renew, take or give back the leases of partitions, in one call.

    Returns the owner of each, empty for none.
    """
    keys = [_key(number) for number in acts]
    with _whole(client):
        call = ("FCALL", functions.OWN, len(keys), *keys, token, LEASE_MS, *acts.values())
        found = functions.call(client, *call) if keys else ()
    return {number: owner.decode() for number, owner in zip(acts, found, strict=True)}


@cache
def _key(number: int) -> str:
    return Partition(number).owner


def owners(client: Redis, partitions: int) -> dict[int, str | None]:
    """Tell the owner of each partition; None where nobody owns it, or this user may not know."""
    pipeline = client.pipeline(transaction=False)
    for number in range(partitions):
        pipeline.get(Partition(number).owner)
    found = pipeline.execute(raise_on_error=False)
    for error in (each for each in found if isinstance(each, Exception)):
        if not isinstance(error, NoPermissionError):
            raise error
    return {number: each.decode() if isinstance(each, bytes) else None for number, each in enumerate(found)}


@contextmanager
def _whole(client: Redis) -> Iterator[None]:
    """Load the functions where the server has lost them; what was asked for fails once more."""
    try:
        yield
    except FunctionsMissing:
        functions.load(client)
        raise
    except ResponseError as error:
        if MISSING in str(error):
            functions.load(client)
            raise FunctionsMissing from error
        raise
