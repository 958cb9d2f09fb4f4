"""Lets gateways read steps from queues, and claim them, for controllers that have no access to Redis.

All gateways read as one consumer of the group `controllers`. A step is pending with this consumer until a gateway gives
it to a controller. Then the step is pending with a consumer of the controller's name. So any gateway can take over the
steps of a dead gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as TookTooLong

from schemas import codec
from schemas.envelope import DATA
from worker.store import functions, keys
from worker.store.clients import has_several
from worker.store.functions import FunctionsMissing, Talk
from worker.store.keys import CONTROLLERS, GATEWAYS, partition_of

STRANDED_MS = 5000  # after this time any gateway takes over an entry
MOST = 100  # entries of one read
UNDELIVERED = "undelivered"
WRONG_TYPE = "WRONGTYPE"  # a lease's key has another type: a retry would not help
NAMES = ("plan_id", "step_id", "attempt", "lease", "lease_key", "reply_to")

Command = tuple[Any, ...]


class SpecEntry(NamedTuple):
    """A step spec as it was read, with the fields that a gateway needs."""

    stream: str
    entry_id: str
    data: bytes
    plan_id: str
    step_id: str
    attempt: int
    lease: str
    lease_key: str
    reply_to: str


class Holder(NamedTuple):
    """The controller that claims a step: its name, its lease time without renewal ('' for the default), and its info.

    `claim` is the token of the request that the claim answers; '' for a renewal.
    """

    name: str
    ttl_s: int | str = ""
    info: bytes = b""
    claim: str = ""

    def beat(self, lease_key: str, attempt: int, lease: str, tool_calls: int | None = None) -> Command:
        """Return the call that claims or renews an attempt's lease, and that reports `tool_calls` if it is given."""
        call = ("FCALL", functions.HEARTBEAT, 1, lease_key, str(attempt), lease, self.name, self.ttl_s)
        if tool_calls is not None:
            return (*call, self.info, self.claim, tool_calls)
        return (*call, self.info, self.claim) if self.claim else (*call, self.info) if self.info else call


def run(client: Redis, commands: Sequence[Command]) -> list[Any]:
    """Send commands together and return their replies; an error is returned as a reply.

    Loads the functions if the server lacks them, and sends all commands again. So each command may run twice. In a
    cluster, the reply of a server that is away is a connection error.
    """
    for _ in range(2):
        try:
            with Talk(client) as talk:
                talk.send(commands)
                several = has_several(client)
                return talk.receive_each(len(commands)) if several else talk.receive(len(commands))
        except FunctionsMissing:
            functions.load(client)
    raise ResponseError(functions.MISSING)


def call(client: Redis, commands: Sequence[Command]) -> list[Any]:
    """Send commands together and return their replies. Raises the first error among them."""
    replies = run(client, commands) if commands else []
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def read_new(client: Redis, stream: str, count: int) -> list[SpecEntry]:
    """Return specs that were not read before; empty if the queue does not exist."""
    try:
        found: Any = client.xreadgroup(CONTROLLERS, GATEWAYS, {stream: ">"}, count=min(count, MOST))
    except ResponseError as error:
        if str(error).startswith("NOGROUP"):
            return []
        raise
    except (NoConnection, TookTooLong):  # a lost reply strands the specs, and they are given later
        if not has_several(client):
            raise
        return []
    return _specs(client, stream, found[0][1] if found else ())


def take_stranded(client: Redis, streams: Sequence[str], idle_ms: int) -> list[SpecEntry]:
    """Return specs that a gateway read at least `idle_ms` ago and gave to no controller.

    Each spec is returned to only one gateway.
    """
    looks = [("XPENDING", stream, CONTROLLERS, "IDLE", idle_ms, "-", "+", MOST, GATEWAYS) for stream in streams]
    taken: list[SpecEntry] = []
    for stream, pending in zip(streams, run(client, looks) if looks else (), strict=True):
        if isinstance(pending, Exception) or not pending:  # an exception: no such queue
            continue
        ids: list[Any] = [entry_id for entry_id, *_ in pending]
        taken += _specs(client, stream, client.xclaim(stream, CONTROLLERS, GATEWAYS, idle_ms, ids))
    return taken


def read_again(client: Redis, places: Iterable[tuple[str, str]]) -> list[SpecEntry]:
    """Return specs that were given before, by pairs of stream and entry id; specs of ended attempts are left out."""
    taken: list[SpecEntry] = []
    for stream, entry_id in places:
        taken += _specs(client, stream, client.xrange(stream, entry_id, entry_id))
    return taken


def _specs(client: Redis, stream: str, found: Any) -> list[SpecEntry]:
    """Return the specs of entries. Entries without a spec are acknowledged, as controllers do."""
    specs = []
    for entry_id, fields in found:
        spec = _spec(stream, entry_id.decode(), fields or {})
        if spec:
            specs.append(spec)
        else:
            client.xack(stream, CONTROLLERS, entry_id)
    return specs


def _spec(stream: str, entry_id: str, fields: dict[bytes, bytes]) -> SpecEntry | None:
    try:
        said = codec.loads(fields[DATA])
        return SpecEntry(stream, entry_id, fields[DATA], *(said[name] for name in NAMES))
    except (codec.DecodeError, LookupError, TypeError):
        return None


def known_streams(client: Redis) -> set[str]:
    """Return the queues that gateways have read."""
    found: Any = client.smembers(keys.CLAIMED_QUEUES)
    return {stream.decode() for stream in found}


def newest(client: Redis, streams: Sequence[str]) -> dict[str, str]:
    """Return the last id of each queue: new entries follow it."""
    found = run(client, [("XINFO", "STREAM", stream) for stream in streams])
    return {
        stream: "0-0" if isinstance(reply, Exception) else _last_id(reply)
        for stream, reply in zip(streams, found, strict=True)
    }


def _last_id(reply: list[Any]) -> str:
    last: bytes = dict(zip(reply[::2], reply[1::2], strict=True))[b"last-generated-id"]
    return last.decode()


def holders(client: Redis, specs: Sequence[SpecEntry]) -> list[str]:
    """Return the holder of each of these attempts; '' if it is unclaimed or has ended."""
    looks = [("HMGET", spec.lease_key, "attempt", "lease", "controller") for spec in specs]
    names = []
    for spec, reply in zip(specs, run(client, looks) if looks else (), strict=True):
        if isinstance(reply, Exception):  # the lease's key has another type
            names.append("")
            continue
        attempt, lease, name = reply
        live = (attempt, lease) == (str(spec.attempt).encode(), spec.lease.encode())
        names.append(name.decode() if live and name else "")
    return names


def move(client: Redis, given: Iterable[tuple[SpecEntry, str]]) -> None:
    """Move the pending specs to the controllers that received them."""
    commands = [("XCLAIM", spec.stream, CONTROLLERS, name, 0, spec.entry_id, "JUSTID") for spec, name in given]
    if commands:
        run(client, commands)  # an error: the queue has gone meanwhile


def hand_back(client: Redis, specs: Sequence[tuple[SpecEntry, str]]) -> list[tuple[SpecEntry, str]]:
    """Report that attempts reached no controller, so that their steps are tried again; no halt rule counts that.

    Each spec comes with the token of its claim, or '' if it is unclaimed. If another claim has received the step
    meanwhile, that caller keeps it. Returns the attempts that were not reported, because their server of a cluster is
    away. Raises any other error of the server; then the caller may report all of them again.
    """
    commands = []
    for spec, claim in specs:
        about = {"plan_id": spec.plan_id, "step_id": spec.step_id, "attempt": spec.attempt, "lease": spec.lease}
        outcome = codec.dumps({**about, "success": False, "released": {"reason": UNDELIVERED}})
        call = ("FCALL", functions.UNDELIVER, 2, spec.lease_key, spec.reply_to, str(spec.attempt), spec.lease, claim)
        commands.append((*call, outcome))
    left = []
    for each, reply in zip(specs, run(client, commands) if commands else (), strict=True):
        if isinstance(reply, NoConnection | TookTooLong) and has_several(client):
            left.append(each)
        elif isinstance(reply, Exception) and not str(reply).startswith(WRONG_TYPE):
            raise reply
    return left


def lease_key(partitions: int, plan_id: str, step_id: str) -> str:
    """Return the key of a step's lease."""
    return keys.Partition(partition_of(plan_id, partitions)).lease_prefix(plan_id) + step_id
