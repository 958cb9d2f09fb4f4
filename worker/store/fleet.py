"""Reads who works and who waits from the queues of step specs, their groups, and the leases of attempts.

Nothing is kept for this: a SCAN finds the queues, XINFO their readers, and leases what the readers say of themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from schemas import codec
from schemas.fleet import ControllerView, QueueView, StepInHand
from schemas.times import rfc3339
from tasks.base.batches import batches
from tasks.handlers.bulk_commands import find_paused_queues, list_standing
from tasks.plan.snapshot import StandingCommand
from worker.store.keys import CONTROLLERS, GATEWAYS, Partition

STEPS_KEY = re.compile(r"planner:\{\d+\}:steps:(.+)", re.DOTALL)
SCAN = 1000
PAGE = 500
MAX_DIGITS = 13  # of a time in ms until the year 2286
NO_KEY = "no such key"
LEASE = ("attempt", "claimed", "renewed", "info")
RECENT_MS = 60_000  # a consumer that asked within this time reads; one that works asks again when it is done


@dataclass(slots=True)
class _Stream:
    """A queue in one partition, at one moment."""

    key: str
    queue: str
    length: int
    consumers: list[dict[str, Any]]
    first: int | None  # when its oldest entry was added, ms

    @property
    def claimed(self) -> int:
        return sum(each["pending"] for each in self.consumers)


@dataclass(slots=True)
class _Controller:
    queues: set[str] = field(default_factory=set)
    idle_ms: int = 2**62
    steps: list[StepInHand] = field(default_factory=list)
    info: dict[str, Any] | None = None


def queues(client: Redis, known: Iterable[str] | None = None, partitions: int = 0) -> list[QueueView]:
    """Tell of every queue, also an empty one that is paused, how long it is, who reads it, and how old its first is.

    Where the names of queues are `known` nobody looks through all keys for others; of these streams may be missing.
    """
    clock: Any = client.time()
    now = clock[0] * 1000 + clock[1] // 1000
    paused, found = paused_queues(client, now), []
    for name, group in groupby(_streams(client, _named(client, known, partitions)), lambda stream: stream.queue):
        streams = list(group)
        length, claimed = sum(each.length for each in streams), sum(each.claimed for each in streams)
        readers = {each["name"] for stream in streams for each in stream.consumers if _reads(each)}
        firsts = [each.first for each in streams if each.first is not None]
        oldest = max(0, now - min(firsts)) if firsts else None
        waiting = max(0, length - claimed)
        view = QueueView(
            queue=name,
            length=length,
            waiting=waiting,
            claimed=claimed,
            readers=len(readers),
            oldest_ms=oldest,
            paused_by=paused.pop(name, None),
        )
        found.append(view)
    found += [
        QueueView(queue=name, length=0, waiting=0, claimed=0, readers=0, oldest_ms=None, paused_by=why)
        for name, why in paused.items()
    ]
    return sorted(found, key=lambda view: view.queue)


def standing_commands(client: Redis, now: int) -> list[StandingCommand]:
    """List the pauses and halts of more than one plan that stand now; none to a user who may not read that."""
    try:
        records: Any = client.hgetall(Partition(0).scopes)  # what stands is the same in all partitions
    except NoPermissionError:
        return []
    return list_standing(records, now)


def paused_queues(client: Redis, now: int) -> dict[str, str]:
    """Tell by whom, why and until when each paused queue is; nothing to a user who may not read that."""
    try:
        records: Any = client.hgetall(Partition(0).scopes)  # what stands is the same in all partitions
    except NoPermissionError:
        return {}
    return {
        queue: ": ".join(filter(None, (one.actor, one.reason)))
        + (f" (until {rfc3339(one.until)})" if one.until else "")
        for queue, one in find_paused_queues(records, now).items()
    }


def count_readers(client: Redis, partitions: int, names: Sequence[str]) -> dict[str, int]:
    """Count who reads each of these queues, over all partitions."""
    keys = [(name, Partition(number).steps(name)) for name in names for number in range(partitions)]
    pipeline = client.pipeline(transaction=False)
    for _, key in keys:
        pipeline.xinfo_consumers(key, CONTROLLERS)
    readers: dict[str, set[bytes]] = {name: set() for name in names}
    for (name, _), found in zip(keys, pipeline.execute(raise_on_error=False), strict=True):
        if isinstance(found, NoPermissionError):
            raise found
        if not isinstance(found, Exception):  # nobody has made the queue or its group yet
            readers[name] |= {each["name"] for each in found if _reads(each)}
    return {name: len(found) for name, found in readers.items()}


def controllers(client: Redis, known: Iterable[str] | None = None, partitions: int = 0) -> list[ControllerView]:
    """Tell of every controller that a queue knows what it works on, and what it says of itself.

    The queues are found as `queues` finds them.
    """
    found: dict[str, _Controller] = {}
    for stream in _streams(client, _named(client, known, partitions)):
        for consumer in stream.consumers:
            if consumer["name"] == GATEWAYS.encode() and not consumer["pending"]:
                continue  # it reads for others, who are there themselves once they have a step
            one = found.setdefault(consumer["name"].decode(errors="replace"), _Controller())
            one.queues.add(stream.queue)
            one.idle_ms = min(one.idle_ms, consumer["idle"])
        if stream.claimed:
            for name, step, info in _in_hand(client, stream.key):
                one = found.setdefault(name, _Controller(queues={stream.queue}, idle_ms=0))
                one.steps.append(step)
                one.info = info or one.info
    return [
        ControllerView(
            name=name, queues=tuple(sorted(one.queues)), idle_ms=one.idle_ms, steps=tuple(one.steps), info=one.info
        )
        for name, one in sorted(found.items())
    ]


def _reads(consumer: dict[str, Any]) -> bool:
    return bool(consumer["pending"] or consumer["idle"] < RECENT_MS)


def find_queues(client: Redis) -> frozenset[str]:
    """Find the names of queues by a walk over all keys."""
    return frozenset(queue for queue, _ in _found(client))


def _found(client: Redis) -> list[tuple[str, str]]:
    """Find the streams of step specs among all keys: the queue and the key of each, those of one queue side by side."""
    names = (key.decode(errors="replace") for key in client.scan_iter("planner:{*}:steps:*", SCAN, "stream"))
    return sorted((match[1], match[0]) for name in names if (match := STEPS_KEY.fullmatch(name)))


def _named(client: Redis, known: Iterable[str] | None, partitions: int) -> list[tuple[str, str]]:
    """Name the streams that these queues may have; those that are found where no queues are known."""
    if known is None:
        return _found(client)
    return sorted((queue, Partition(number).steps(queue)) for queue in known for number in range(partitions))


def _streams(client: Redis, named: Sequence[tuple[str, str]]) -> Iterator[_Stream]:
    """Yield those of these streams that there are, with the queue of each."""
    for some in batches(named, SCAN):
        with client.pipeline(transaction=False) as pipeline:
            for _, key in some:
                pipeline.exists(key)
            there = pipeline.execute()
        yield from _read_streams(client, [each for each, is_there in zip(some, there, strict=True) if is_there])


def _read_streams(client: Redis, named: Sequence[tuple[str, str]]) -> Iterator[_Stream]:
    """Yield these streams; one that goes meanwhile is passed over."""
    with client.pipeline(transaction=False) as pipeline:
        for _, key in named:
            pipeline.xlen(key)
            pipeline.xinfo_consumers(key, CONTROLLERS)
            pipeline.xrange(key, count=1)
        said = pipeline.execute(raise_on_error=False)
    for (queue, key), length, consumers, first in zip(named, said[::3], said[1::3], said[2::3], strict=True):
        if isinstance(length, Exception) or isinstance(first, Exception):
            continue
        if isinstance(consumers, ResponseError):  # nobody has made the group yet, or the stream
            if NO_KEY in str(consumers):
                continue
            consumers = []
        added = int(first[0][0].partition(b"-")[0]) if first else None
        yield _Stream(key, queue, length, consumers, added)


def _in_hand(client: Redis, key: str) -> Iterator[tuple[str, StepInHand, dict[str, Any] | None]]:
    """Yield the steps of a stream that somebody has read, each with who works on it and what they say of themselves."""
    after = "-"
    while True:
        try:
            page: Any = client.xpending_range(key, CONTROLLERS, after, "+", PAGE)
        except ResponseError:  # the queue has gone meanwhile
            return
        yield from _leased(
            client, key, {each["message_id"]: each["consumer"].decode(errors="replace") for each in page}
        )
        if len(page) < PAGE:
            return
        after = "(" + page[-1]["message_id"].decode()


def _leased(
    client: Redis, key: str, readers: dict[bytes, str]
) -> Iterator[tuple[str, StepInHand, dict[str, Any] | None]]:
    with client.pipeline(transaction=False) as pipeline:
        for entry in readers:
            pipeline.xrange(key, entry, entry)
        specs = [_spec(found) for found in pipeline.execute()]
        for spec in specs:
            pipeline.hmget(spec["lease_key"] if spec else key + ":none", *LEASE)
        leases = pipeline.execute()
    for (reader, spec), lease in zip(zip(readers.values(), specs, strict=True), leases, strict=True):
        if spec:
            yield _holder(reader, spec, lease)


def _spec(found: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> dict[str, Any] | None:
    """Read the spec of an entry; None where it has ended meanwhile, or is none of the planner's."""
    try:
        spec: dict[str, Any] = codec.loads(found[0][1][b"data"])
        _ = spec["lease_key"], spec["plan_id"], spec["step_id"], spec["attempt"]
    except (codec.DecodeError, LookupError, TypeError):
        return None
    return spec


def _holder(  # a lease has the name under which controllers of one host claim, a group that of the one who read
    reader: str, spec: dict[str, Any], lease: Iterable[bytes | None]
) -> tuple[str, StepInHand, dict[str, Any] | None]:
    attempt, claimed, renewed, info = lease
    ours = attempt == str(spec["attempt"]).encode()
    step = StepInHand(
        plan_id=spec["plan_id"],
        step_id=spec["step_id"],
        attempt=spec["attempt"],
        since=moment(claimed) if ours else None,
        heartbeat_at=moment(renewed) if ours else None,
    )
    return reader, step, _info(info) if ours else None


def moment(raw: bytes | None) -> str | None:
    """Read a time of a lease, which controllers write: None for whatever else stands there."""
    return rfc3339(int(raw)) if raw and raw.isdigit() and len(raw) <= MAX_DIGITS else None


def _info(raw: bytes | None) -> dict[str, Any] | None:
    """Read what a controller says of itself, which is data from outside; None where it is no object."""
    try:
        found = codec.loads(raw or b"null")
    except codec.DecodeError:
        return None
    return found if isinstance(found, dict) else None
