"""The leases of workers on partitions, and the list of those workers with their versions.

A lease saves work and protects nothing: each commit to a plan is fenced by the plan's version.
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

LEASE_MS = 5000  # time until another worker takes a dead worker's partitions
FRESH_MS = 1000  # a lease may be older by so much than the look that returned it; as in owners.lua

Act = Literal["look", "take", "give"]


class WorkerThere(NamedTuple):
    """A live worker with its version; None if a full server did not store it."""

    token: str
    version: str | None


def register(client: Redis, token: str, *, leaves: bool = False) -> frozenset[str]:
    """Record that the worker `token` is alive, with its version, or that it leaves. Returns all live workers."""
    with _whole(client):
        found = functions.call(client, "FCALL", functions.REGISTER, 1, WORKERS, token, LEASE_MS, int(leaves))
    if leaves:
        client.delete(worker_version(token))
    else:
        with suppress(OutOfMemoryError):  # a full server: the next look writes it again
            client.set(worker_version(token), CODE_VERSION, px=LEASE_MS)
    return frozenset(each.decode() for each in found)


def workers(client: Redis) -> list[WorkerThere]:
    """Return the live workers; empty if this user may not read them."""
    try:
        found: Any = client.zrange(WORKERS, now_ms(client) - LEASE_MS, "+inf", byscore=True)
        tokens = sorted(each.decode() for each in found)
        told: Any = client.mget([worker_version(token) for token in tokens]) if tokens else ()
    except NoPermissionError:
        return []
    return [WorkerThere(token, said.decode() if said else None) for token, said in zip(tokens, told, strict=True)]


def hold(client: Redis, token: str, acts: Mapping[int, Act]) -> dict[int, str]:
    """Renew, take or release the leases of partitions, in one call. Returns the owner of each, empty for none."""
    keys = [_key(number) for number in acts]
    with _whole(client):
        call = ("FCALL", functions.OWN, len(keys), *keys, token, LEASE_MS, *acts.values())
        found = functions.call(client, *call) if keys else ()
    return {number: owner.decode() for number, owner in zip(acts, found, strict=True)}


@cache
def _key(number: int) -> str:
    return Partition(number).owner


def owners(client: Redis, partitions: int) -> dict[int, str | None]:
    """Return the owner of each partition; None if it has none, or this user may not read it."""
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
    """If the server lacks the functions, load them and raise FunctionsMissing: the next call succeeds."""
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
