"""Reads waiting steps and working controllers from the queues, their groups, and the leases of attempts.

Only the names of queues, from goals and steps of plans, are stored for this. XINFO names the readers of queues, and
leases contain the readers' own info.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, Literal, NamedTuple

from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from schemas import codec
from schemas.fleet import ControllerView, QueueView, StepInHand
from schemas.step import DELIVERIES
from schemas.times import DAY_MS, milliseconds, rfc3339
from tasks.base.batches import batches
from tasks.handlers.bulk_commands import find_paused_queues, list_standing
from tasks.plan.snapshot import StandingCommand
from worker.store import keys
from worker.store.clients import now_ms
from worker.store.commit_parts import DONE, FAILED
from worker.store.keys import CONTROLLERS, GATEWAYS, Partition

STEPS_KEY = re.compile(r"planner:\{(\d+)\}:steps:(.+)", re.DOTALL)
AT_ONCE = 1000
PAGE = 500
MAX_DIGITS = 13  # of a time in ms until the year 2286
NO_KEY = "no such key"
LEASE = ("attempt", "claimed", "renewed", "info", "ttl")
RECENT_MS = 60_000  # a consumer that asked within this time is a reader; a working one asks again afterwards
NEVER_MS = 2**62
GONE_MS = 40_000  # twice the heartbeat interval: a controller that is silent for longer is gone
INFO = "info"  # prefix of the field with a controller's info, next to its counts
QUEUE = "queue:"  # prefix of a queue's field; its value counts how often it was named
USUAL = ("default", DELIVERIES)  # queues that controllers may read before a step names them
MOST_QUEUES = 1000  # most queues of a look
MOST = 50  # recorded with one goal; others when one of their steps is handed out


@dataclass(slots=True)
class Stream:
    """A queue in one partition, at one moment."""

    key: str
    queue: str
    length: int
    consumers: list[dict[str, Any]]
    first: int | None  # when its oldest entry was added, ms

    @property
    def claimed(self) -> int:
        """The number of entries that a controller has read and that have not ended."""
        return sum(each["pending"] for each in self.consumers)


class _Held(NamedTuple):
    """A step in hand: its controller, the step, the controller's info, and the silence in ms that ends the claim."""

    name: str
    step: StepInHand
    info: dict[str, Any] | None
    gone_ms: int


@dataclass(slots=True)
class _Controller:
    queues: set[str] = field(default_factory=set)
    idle_ms: int = NEVER_MS
    steps: list[StepInHand] = field(default_factory=list)
    info: dict[str, Any] | None = None
    gone_ms: int = GONE_MS

    def silent_ms(self, now: int) -> int:
        """Return the time in ms since the controller's last request for work or heartbeat."""
        heard = (each.heartbeat_at or each.since for each in self.steps)
        beats = (now - milliseconds(datetime.fromisoformat(at)) for at in heard if at)
        return max(0, min([self.idle_ms, *beats]))

    def state(self, now: int) -> Literal["working", "idle", "gone"]:
        """Return whether the controller works, waits for work, or is gone."""
        if self.silent_ms(now) > self.gone_ms and all(step.heartbeat_at for step in self.steps):
            return "gone"  # a controller without heartbeats is never assumed to be gone
        return "working" if self.steps else "idle"


def queues(client: Redis, known: Iterable[str] | None = None, partitions: int = 1) -> list[QueueView]:
    """Return every queue with its length, its readers and the age of its first entry; also empty paused queues.

    Only the `known` queues are read, if given. By default these are the usual queues and each queue that a step of a
    plan in the `partitions` named.
    """
    return queues_of(client, streams(client, known, partitions))


def streams(client: Redis, known: Iterable[str] | None, partitions: int) -> list[Stream]:
    """Return the streams of all queues, or of the `known` ones, with the streams of one queue in sequence."""
    return list(_streams(client, _named(client, known, partitions)))


def queues_of(client: Redis, found_streams: Iterable[Stream]) -> list[QueueView]:
    """Return the view of every queue from its streams, as `queues` does."""
    now = now_ms(client)
    paused, found = paused_queues(client, now), []
    for name, group in groupby(found_streams, lambda stream: stream.queue):
        some = list(group)
        length, claimed = sum(each.length for each in some), sum(each.claimed for each in some)
        readers = {each["name"] for stream in some for each in stream.consumers if _reads(each)}
        firsts = [each.first for each in some if each.first is not None]
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
    """Return the pauses and halts of more than one plan that apply now; empty if this user may not read them."""
    try:
        records: Any = client.hgetall(Partition(0).scopes)  # standing commands are the same in all partitions
    except NoPermissionError:
        return []
    return list_standing(records, now)


def paused_queues(client: Redis, now: int) -> dict[str, str]:
    """Return for each paused queue the actor, the reason and the end of the pause.

    Returns nothing if this user may not read pauses.
    """
    try:
        records: Any = client.hgetall(Partition(0).scopes)  # standing commands are the same in all partitions
    except NoPermissionError:
        return {}
    return {
        queue: ": ".join(filter(None, (one.actor, one.reason)))
        + (f" (until {rfc3339(one.until)})" if one.until else "")
        for queue, one in find_paused_queues(records, now).items()
    }


def count_readers(client: Redis, partitions: int, names: Sequence[str]) -> dict[str, int]:
    """Return the number of readers of each of these queues, over all partitions."""
    keys = [(name, Partition(number).steps(name)) for name in names for number in range(partitions)]
    pipeline = client.pipeline(transaction=False)
    for _, key in keys:
        pipeline.xinfo_consumers(key, CONTROLLERS)
    readers: dict[str, set[bytes]] = {name: set() for name in names}
    for (name, _), found in zip(keys, pipeline.execute(raise_on_error=False), strict=True):
        if isinstance(found, NoPermissionError):
            raise found
        if not isinstance(found, Exception):  # the queue or its group may not exist yet
            readers[name] |= {each["name"] for each in found if _reads(each)}
    return {name: len(found) for name, found in readers.items()}


def controllers(client: Redis, known: Iterable[str] | None = None, partitions: int = 1) -> list[ControllerView]:
    """Return every controller of a queue with its steps and its info. The queues are found as in `queues`."""
    return controllers_of(client, streams(client, known, partitions))


def controllers_of(client: Redis, found_streams: Sequence[Stream]) -> list[ControllerView]:
    """Return every controller from the streams of queues, as `controllers` does."""
    found: dict[str, _Controller] = {}
    for stream in found_streams:
        for consumer in stream.consumers:
            if consumer["name"] == GATEWAYS.encode() and not consumer["pending"]:
                continue  # it reads for others, which appear themselves once they have a step
            one = found.setdefault(consumer["name"].decode(errors="replace"), _Controller())
            one.queues.add(stream.queue)
            one.idle_ms = min(one.idle_ms, consumer["idle"])
    for queue, held in _in_hand(client, [stream for stream in found_streams if stream.claimed]):
        one = found.setdefault(held.name, _Controller(queues={queue}))
        one.steps.append(held.step)
        one.info, one.gone_ms = held.info or one.info, max(one.gone_ms, held.gone_ms)
    now = now_ms(client)
    numbers = {int(key[1]) for stream in found_streams if (key := STEPS_KEY.fullmatch(stream.key))}
    counts, infos = _read_work(client, map(Partition, numbers), now)
    return [
        ControllerView(
            name=name,
            done=_count(counts, DONE, name),
            failed=_count(counts, FAILED, name),
            queues=tuple(sorted(one.queues)),
            idle_ms=one.idle_ms if one.idle_ms < NEVER_MS else 0,
            steps=tuple(one.steps),
            info=one.info or infos.get(name) or infos.get(_program(name)),
            state=one.state(now),
            seen_at=rfc3339(now - silent) if (silent := one.silent_ms(now)) < NEVER_MS else None,
        )
        for name, one in sorted(found.items())
    ]


def _count(counts: Counter[tuple[int, str]], result: int, name: str) -> int:
    """Return the number of attempts for a controller's name and a result.

    Controllers `<name>-<number>` of one program share the count of `<name>`.
    """
    return counts[result, name] or counts[result, _program(name)]


def _program(name: str) -> str:
    """Return the name under which the controllers of one program claim: a name without its number."""
    program, _, number = name.rpartition("-")
    return program if number.isdigit() else name


def _read_work(
    client: Redis, homes: Iterable[Partition], now: int
) -> tuple[Counter[tuple[int, str]], dict[str, dict[str, Any]]]:
    """Return the numbers of attempts that controllers finished or failed today and yesterday (UTC), and their info."""
    found, infos = Counter[tuple[int, str]](), dict[str, dict[str, Any]]()
    pipeline = client.pipeline(transaction=False)
    for home in homes:
        for day in (now // DAY_MS, now // DAY_MS - 1):
            pipeline.hgetall(home.worked(day))
    for counts in pipeline.execute(raise_on_error=False):
        if isinstance(counts, NoPermissionError):
            return found, infos
        if isinstance(counts, ResponseError):  # a key of another type has no counts
            continue
        for raw, count in counts.items():
            result, _, name = raw.decode(errors="replace").partition(" ")
            if result != INFO:
                found[int(result), name] += int(count)
            elif name not in infos and (info := _info(count)):  # today's comes before that of yesterday
                infos[name] = info
    return found, infos


def _reads(consumer: dict[str, Any]) -> bool:
    return bool(consumer["pending"] or consumer["idle"] < RECENT_MS)


def _named(client: Redis, known: Iterable[str] | None, partitions: int) -> list[tuple[str, str]]:
    """Return queue and stream key for each partition of the `known` queues, which may not exist.

    By default these are the usual queues and each queue that a step of a plan named.
    """
    names = {*USUAL, *read_queue_names(client, partitions)} if known is None else known
    return sorted((queue, Partition(number).steps(queue)) for queue in names for number in range(partitions))


def _streams(client: Redis, named: Sequence[tuple[str, str]]) -> Iterator[Stream]:
    """Yield the existing streams among pairs of queue and stream key."""
    for some in batches(named, AT_ONCE):
        with client.pipeline(transaction=False) as pipeline:
            for _, key in some:
                pipeline.exists(key)
            there = pipeline.execute()
        yield from _read_streams(client, [each for each, is_there in zip(some, there, strict=True) if is_there])


def _read_streams(client: Redis, named: Sequence[tuple[str, str]]) -> Iterator[Stream]:
    """Yield these streams; one that is deleted meanwhile is skipped."""
    with client.pipeline(transaction=False) as pipeline:
        for _, key in named:
            pipeline.xlen(key)
            pipeline.xinfo_consumers(key, CONTROLLERS)
            pipeline.xrange(key, count=1)
        said = pipeline.execute(raise_on_error=False)
    for (queue, key), length, consumers, first in zip(named, said[::3], said[1::3], said[2::3], strict=True):
        if isinstance(length, Exception) or isinstance(first, Exception):
            continue
        if isinstance(consumers, ResponseError):  # the group or the stream may not exist yet
            if NO_KEY in str(consumers):
                continue
            consumers = []
        added = int(first[0][0].partition(b"-")[0]) if first else None
        yield Stream(key, queue, length, consumers, added)


def _in_hand(client: Redis, claimed: Sequence[Stream]) -> Iterator[tuple[str, _Held]]:
    """Yield the steps that were read, each with its queue, its controller and the controller's info."""
    for some in batches([(each, "-") for each in claimed], AT_ONCE):
        left = list(some)
        while left:  # one page of each stream, then the next one of those that have more
            with client.pipeline(transaction=False) as pipeline:
                for stream, after in left:
                    pipeline.xpending_range(stream.key, CONTROLLERS, after, "+", PAGE)
                pages = pipeline.execute(raise_on_error=False)
            read = []
            for (stream, _), page in zip(left, pages, strict=True):
                if isinstance(page, ResponseError) and not isinstance(page, NoPermissionError):
                    continue  # the queue has gone meanwhile
                if isinstance(page, Exception):
                    raise page
                read.append((stream, page))
            entries = [(stream, each) for stream, page in read for each in page]
            for part in batches(entries, PAGE):
                yield from _leased(client, part)
            left = [(stream, "(" + page[-1]["message_id"].decode()) for stream, page in read if len(page) == PAGE]


def _leased(client: Redis, entries: Sequence[tuple[Stream, dict[str, Any]]]) -> Iterator[tuple[str, _Held]]:
    with client.pipeline(transaction=False) as pipeline:
        for stream, each in entries:
            pipeline.xrange(stream.key, each["message_id"], each["message_id"])
        specs = [_spec(found) for found in pipeline.execute()]
        for (stream, _), spec in zip(entries, specs, strict=True):
            pipeline.hmget(spec["lease_key"] if spec else stream.key + ":none", *LEASE)
        leases = pipeline.execute()
    for (stream, each), spec, lease in zip(entries, specs, leases, strict=True):
        if spec:
            yield stream.queue, _holder(each["consumer"].decode(errors="replace"), spec, lease)


def _spec(found: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> dict[str, Any] | None:
    """Return the spec in an entry; None if the entry is deleted, or if the planner did not write it."""
    try:
        spec: dict[str, Any] = codec.loads(found[0][1][b"data"])
        _ = spec["lease_key"], spec["plan_id"], spec["step_id"], spec["attempt"]
    except (codec.DecodeError, LookupError, TypeError):
        return None
    return spec


def _holder(  # a lease has the name under which controllers of one host claim, a group that of the one who read
    reader: str, spec: dict[str, Any], lease: Iterable[bytes | None]
) -> _Held:
    attempt, claimed, renewed, info, ttl = lease
    ours = attempt == str(spec["attempt"]).encode()
    step = StepInHand(
        plan_id=spec["plan_id"],
        step_id=spec["step_id"],
        attempt=spec["attempt"],
        since=moment(claimed) if ours else None,
        heartbeat_at=moment(renewed) if ours else None,
    )
    lasts = int(ttl) if ours and ttl and ttl.isdigit() and len(ttl) <= MAX_DIGITS else 0
    return _Held(reader, step, _info(info) if ours else None, max(GONE_MS, 2 * lasts // 3))


def moment(raw: bytes | None) -> str | None:
    """Return a time of a lease, which controllers write; None for any other text."""
    return rfc3339(int(raw)) if raw and raw.isdigit() and len(raw) <= MAX_DIGITS else None


def _info(raw: bytes | None) -> dict[str, Any] | None:
    """Return a controller's info, which is data from outside; None if it is no object."""
    try:
        found = codec.loads(raw or b"null")
    except codec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def count_named(named: Collection[str]) -> dict[str, int]:
    """Return the counters for these queues, with the increment 1 for each."""
    return {QUEUE + queue: 1 for queue in sorted(named)[:MOST]}


def read_queue_names(client: Redis, partitions: int) -> list[str]:
    """Return the names of queues, the most used first, at most MOST_QUEUES: any producer may name some."""
    pipeline = client.pipeline(transaction=False)
    pipeline.hgetall(keys.GOALS_STATS)
    for number in range(partitions):
        pipeline.hgetall(Partition(number).stats)
    times: dict[str, int] = {}
    for found in pipeline.execute(raise_on_error=False):
        if isinstance(found, NoPermissionError):  # such as to goals: what partitions name is known all the same
            continue
        if isinstance(found, Exception):
            raise found
        for key, value in found.items():
            name = key.decode()
            if name.startswith(QUEUE):
                queue = name.removeprefix(QUEUE)
                times[queue] = times.get(queue, 0) + int(value)
    return sorted(times, key=lambda queue: (-times[queue], queue))[:MOST_QUEUES]
