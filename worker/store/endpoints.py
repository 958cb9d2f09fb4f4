"""Callback endpoints, stored as JSON; worker/callbacks encrypts their secrets.

Commits add notifications to the outbox of their partition only if there is an endpoint; `open_outboxes` enables that in
each partition.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from redis import Redis

from schemas import codec
from worker.store.keys import ENDPOINTS, ENDPOINTS_OFF, Partition

log = logging.getLogger("planner.callbacks")

EndpointKind = Literal["webhook", "github", "gitlab"]  # the last two set the status of a commit
EventName = Literal[  # as in outbox.lua, and in worker/delivered/telling.py
    "plan.completed",
    "plan.halted",
    "plan.rejected",
    "plan.input_requested",
    "repository.paused",
    "plan.checks_red",
    "plan.changes_asked",
    "plan.merged",
    "plan.closed",
    "plan.reverted",
]
EVENTS: tuple[EventName, ...] = get_args(EventName)


@dataclass(frozen=True, slots=True)
class Secret:
    """A stored secret: encrypted, with its end of validity in ms; 0 if it is valid as long as the endpoint exists."""

    sealed: str
    until: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint for callbacks about the plans of a tenant and repository; None means of all.

    With `named` it receives only callbacks about plans whose goals name it. `off` is the reason if it is disabled for
    now.
    """

    id: str
    kind: EndpointKind
    url: str
    events: tuple[EventName, ...]
    tenant: str | None
    repo: str | None
    named: bool
    created: int
    secrets: tuple[Secret, ...]
    off: str = ""

    def hears(self, event: str, tenant: str, repo: str | None, callback: str) -> bool:
        """Return whether it receives an event of a plan.

        The plan has this tenant and repository, and its goal names the endpoint `callback`.
        """
        if event not in self.events or self.tenant not in (None, tenant):
            return False
        return callback == self.id or (not self.named and self.repo in (None, repo))


def read(client: Redis, endpoint_id: str) -> Endpoint | None:
    """Return one endpoint; None if there is none with that id."""
    found: Any = client.hget(ENDPOINTS, endpoint_id)
    off: Any = client.hget(ENDPOINTS_OFF, endpoint_id) if found else None
    return _decoded(endpoint_id, found, off) if found else None


def read_all(client: Redis) -> dict[str, Endpoint]:
    """Return all endpoints by their ids, the oldest first."""
    found: Any = client.hgetall(ENDPOINTS)
    if not found:
        return {}
    off: Any = client.hgetall(ENDPOINTS_OFF)
    endpoints = (_decoded(name.decode(), raw, off.get(name)) for name, raw in found.items())
    return {each.id: each for each in sorted(filter(None, endpoints), key=lambda each: (each.created, each.id))}


def write(client: Redis, endpoint: Endpoint, partitions: int) -> None:
    """Write an endpoint; from now on commits of each partition add notifications."""
    _open(client, partitions)  # first: otherwise a commit after the endpoint's creation could be missed
    record = asdict(endpoint)
    del record["off"]
    client.hset(ENDPOINTS, endpoint.id, codec.dumps(record).decode())


def switch(client: Redis, endpoint_id: str, off: str) -> None:
    """Switch an endpoint off with the reason `off`, or on again with an empty one."""
    if off:
        client.hset(ENDPOINTS_OFF, endpoint_id, off)
    else:
        client.hdel(ENDPOINTS_OFF, endpoint_id)


def open_outboxes(client: Redis, partitions: int) -> None:
    """Enable notifications in each partition, if there is an endpoint.

    Each worker calls it at its start, because the number of partitions may have grown since the endpoint was added.
    """
    if client.exists(ENDPOINTS):
        _open(client, partitions)


def _open(client: Redis, partitions: int) -> None:
    pipeline = client.pipeline(transaction=False)
    for number in range(partitions):
        pipeline.set(Partition(number).outbox_open, "1")
    pipeline.execute()


def _decoded(endpoint_id: str, raw: bytes, off: bytes | None) -> Endpoint | None:
    """Return an endpoint from its record, without fields of newer versions; None for an unreadable one."""
    try:
        record: dict[str, Any] = codec.loads(raw)
        secrets: Sequence[dict[str, Any]] = record["secrets"]
        return Endpoint(
            id=endpoint_id,
            kind=record["kind"],
            url=record["url"],
            events=tuple(record["events"]),
            tenant=record["tenant"],
            repo=record["repo"],
            named=record["named"],
            created=record["created"],
            secrets=tuple(Secret(each["sealed"], each["until"]) for each in secrets),
            off=off.decode() if off else "",
        )
    except (ValueError, TypeError, KeyError):
        log.exception("endpoint unreadable", extra={"endpoint": endpoint_id})
        return None
