"""Endpoints: who is told by callbacks, of which plans; kept as JSON, their secrets encrypted by worker/callbacks.

Commits put what is to be told into the outbox of their partition only where there is an endpoint; `open_outboxes` says
so to each partition.
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
    """A secret as it is stored: encrypted, and until when it counts in ms; 0 for as long as the endpoint is there."""

    sealed: str
    until: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Who is told: `tenant` and `repo` None for all, `named` for plans alone whose goals name it.

    `off` says why it is told nothing for now.
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
        """Whether it is to hear of an event of a plan of this tenant and repository, whose goal names `callback`."""
        if event not in self.events or self.tenant not in (None, tenant):
            return False
        return callback == self.id or (not self.named and self.repo in (None, repo))


def read(client: Redis, endpoint_id: str) -> Endpoint | None:
    """Read one endpoint; None where there is none of that id."""
    found: Any = client.hget(ENDPOINTS, endpoint_id)
    off: Any = client.hget(ENDPOINTS_OFF, endpoint_id) if found else None
    return _decoded(endpoint_id, found, off) if found else None


def read_all(client: Redis) -> dict[str, Endpoint]:
    """Read all endpoints by their ids, the oldest first."""
    found: Any = client.hgetall(ENDPOINTS)
    if not found:
        return {}
    off: Any = client.hgetall(ENDPOINTS_OFF)
    endpoints = (_decoded(name.decode(), raw, off.get(name)) for name, raw in found.items())
    return {each.id: each for each in sorted(filter(None, endpoints), key=lambda each: (each.created, each.id))}


def write(client: Redis, endpoint: Endpoint, partitions: int) -> None:
    """Write an endpoint; from now on commits of each partition tell what happens."""
    _open(client, partitions)  # first: else a commit that follows the endpoint could be told to nobody
    record = asdict(endpoint)
    del record["off"]
    client.hset(ENDPOINTS, endpoint.id, codec.dumps(record).decode())


def switch(client: Redis, endpoint_id: str, off: str) -> None:
    """Say why an endpoint is told nothing for now; nothing to have it told again."""
    if off:
        client.hset(ENDPOINTS_OFF, endpoint_id, off)
    else:
        client.hdel(ENDPOINTS_OFF, endpoint_id)


def open_outboxes(client: Redis, partitions: int) -> None:
    """Have the commits of each partition tell what happens, where there is an endpoint.

    Asked by each worker at its start, since there may be more partitions than when the endpoint was added.
    """
    if client.exists(ENDPOINTS):
        _open(client, partitions)


def _open(client: Redis, partitions: int) -> None:
    pipeline = client.pipeline(transaction=False)
    for number in range(partitions):
        pipeline.set(Partition(number).outbox_open, "1")
    pipeline.execute()


def _decoded(endpoint_id: str, raw: bytes, off: bytes | None) -> Endpoint | None:
    """Read a record; what a newer version has added is passed over, one that cannot be read counts as none."""
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
