"""Steps that gateways read from the queues for controllers who have no Redis, and claim in their names.

All gateways read as one consumer of the group. What is pending with it has been read and not been given to anybody: a
step that is given moves to a consumer of the controller's name. So any gateway finds what one that died had in hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import ResponseError

from schemas import codec
from schemas.envelope import DATA
from worker.store import functions, keys
from worker.store.functions import FunctionsMissing, Talk
from worker.store.keys import CONTROLLERS, GATEWAYS, partition_of

STRANDED_MS = 5000  # what a gateway has had in hand for so long is taken by any
MOST = 100  # entries of one read
UNDELIVERED = "undelivered"
WRONG_TYPE = "WRONGTYPE"  # somebody put something else in a lease's place: that will not change by trying again
NAMES = ("plan_id", "step_id", "attempt", "lease", "lease_key", "reply_to")

Command = tuple[Any, ...]


class SpecEntry(NamedTuple):
    """A step spec as it was read, and what of it a gateway needs."""

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
    """Who claims: the name in the lease, for how long without a renewal ('' as usual), what it says of itself.

    `claim` is the token of the claim that is answered; '' for a renewal.
    """

    name: str
    ttl_s: int | str = ""
    info: bytes = b""
    claim: str = ""

    def beat(self, lease_key: str, attempt: int, lease: str) -> Command:
        """Make the call that claims an attempt, or renews it."""
        call = ("FCALL", functions.HEARTBEAT, 1, lease_key, str(attempt), lease, self.name, self.ttl_s)
        return (*call, self.info, self.claim) if self.claim else (*call, self.info) if self.info else call


def run(client: Redis, commands: Sequence[Command]) -> list[Any]:
    """Send commands together and return their replies, errors among them; loads the functions where they are missing.

    Each of them may be sent twice.
    """
    for _ in range(2):
        try:
            with Talk(client) as talk:
                talk.send(commands)
                return talk.receive(len(commands))
        except FunctionsMissing:
            functions.load(client)
    raise ResponseError(functions.MISSING)


def call(client: Redis, commands: Sequence[Command]) -> list[Any]:
    """Send commands together and return their replies; raises the first error among them."""
    replies = run(client, commands) if commands else []
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def read_new(client: Redis, stream: str, count: int) -> list[SpecEntry]:
    """Read specs that nobody has read; none where the queue does not exist."""
    try:
        found: Any = client.xreadgroup(CONTROLLERS, GATEWAYS, {stream: ">"}, count=min(count, MOST))
    except ResponseError as error:
        if str(error).startswith("NOGROUP"):
            return []
        raise
    return _specs(client, stream, found[0][1] if found else ())


def take_stranded(client: Redis, streams: Sequence[str], idle_ms: int) -> list[SpecEntry]:
    """Take the specs that a gateway read so long ago and gave to nobody; only one gateway gets each."""
    looks = [("XPENDING", stream, CONTROLLERS, "IDLE", idle_ms, "-", "+", MOST, GATEWAYS) for stream in streams]
    taken: list[SpecEntry] = []
    for stream, pending in zip(streams, run(client, looks) if looks else (), strict=True):
        if isinstance(pending, Exception) or not pending:  # an exception: no such queue
            continue
        ids: list[Any] = [entry_id for entry_id, *_ in pending]
        taken += _specs(client, stream, client.xclaim(stream, CONTROLLERS, GATEWAYS, idle_ms, ids))
    return taken


def read_again(client: Redis, places: Iterable[tuple[str, str]]) -> list[SpecEntry]:
    """Read specs that were given before, as far as their attempts have not ended."""
    taken: list[SpecEntry] = []
    for stream, entry_id in places:
        taken += _specs(client, stream, client.xrange(stream, entry_id, entry_id))
    return taken


def _specs(client: Redis, stream: str, found: Any) -> list[SpecEntry]:
    """Read the specs of entries; what is none is acknowledged, as controllers do."""
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
    """Name the queues that gateways have read."""
    found: Any = client.smembers(keys.CLAIMED_QUEUES)
    return {stream.decode() for stream in found}


def newest(client: Redis, streams: Sequence[str]) -> dict[str, str]:
    """Tell of each queue where its news begin: behind what was ever added to it."""
    found = run(client, [("XINFO", "STREAM", stream) for stream in streams])
    return {
        stream: "0-0" if isinstance(reply, Exception) else _last_id(reply)
        for stream, reply in zip(streams, found, strict=True)
    }


def _last_id(reply: list[Any]) -> str:
    last: bytes = dict(zip(reply[::2], reply[1::2], strict=True))[b"last-generated-id"]
    return last.decode()


def holders(client: Redis, specs: Sequence[SpecEntry]) -> list[str]:
    """Name who has claimed each of these attempts; '' where nobody has, or the attempt is over."""
    looks = [("HMGET", spec.lease_key, "attempt", "lease", "controller") for spec in specs]
    names = []
    for spec, reply in zip(specs, run(client, looks) if looks else (), strict=True):
        if isinstance(reply, Exception):  # somebody put something else in the lease's place
            names.append("")
            continue
        attempt, lease, name = reply
        live = (attempt, lease) == (str(spec.attempt).encode(), spec.lease.encode())
        names.append(name.decode() if live and name else "")
    return names


def move(client: Redis, given: Iterable[tuple[SpecEntry, str]]) -> None:
    """Have specs pend with the controllers that they were given to."""
    commands = [("XCLAIM", spec.stream, CONTROLLERS, name, 0, spec.entry_id, "JUSTID") for spec, name in given]
    if commands:
        run(client, commands)  # an error: the queue has gone meanwhile


def hand_back(client: Redis, specs: Iterable[tuple[SpecEntry, str]]) -> None:
    """Report attempts that reached nobody, each with the token of its claim, '' where nobody has claimed it.

    Their steps are tried again, and no halt rule counts it. What another claim was answered with since stays its
    caller's. Raises what the server refuses; all of them may then be reported again.
    """
    commands = []
    for spec, claim in specs:
        about = {"plan_id": spec.plan_id, "step_id": spec.step_id, "attempt": spec.attempt, "lease": spec.lease}
        outcome = codec.dumps({**about, "success": False, "released": {"reason": UNDELIVERED}})
        call = ("FCALL", functions.UNDELIVER, 2, spec.lease_key, spec.reply_to, str(spec.attempt), spec.lease, claim)
        commands.append((*call, outcome))
    for reply in run(client, commands) if commands else ():
        if isinstance(reply, Exception) and not str(reply).startswith(WRONG_TYPE):
            raise reply


def lease_key(partitions: int, plan_id: str, step_id: str) -> str:
    """Name the lease of a step's attempt."""
    return keys.Partition(partition_of(plan_id, partitions)).lease_prefix(plan_id) + step_id
