"""Watches all streams of a worker for new entries in a thread, and sends wake-ups over Celery.

A wake-up is a Celery task without a message. A lost wake-up costs a delay, a double one costs nothing. While the broker
is away, or this worker receives nothing from it, a thread of this process does the work. A partition that another
worker owns gets no wake-up from here. The reader (reader.py) reads the outcomes of this worker's own partitions.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from worker.process import jobs
from worker.process.blocking_read import BlockingRead
from worker.process.hands import Hands
from worker.process.ownership import Owner, Ownership
from worker.process.wakeup import Wakeups
from worker.process.wakeup_ledger import Key, WakeupState
from worker.process.watchdog import Beat
from worker.process.watches import Watch
from worker.store import clients, functions, looks
from worker.store.keys import GOALS, GOALS_TURNS
from worker.streams.inbox import Inbox
from worker.telemetry.outage import Outage, pause

log = logging.getLogger("planner.ingress")

BLOCK_MS = 200  # longest wait for news: also how late a due timer may be seen
LOOK_S = 0.01  # between looks at whether a task of ours still runs
SWEEP_S = 5.0  # between looks for entries of dead workers
REFUSED_S = 2.0  # until the next look at a stream that the server refused
WHOLE_S = 300.0  # approximate pause between sweeps of an idle partition
ELSEWHERE_S = 0.05  # between checks whether another worker still owns a partition
LATE_S = 0.5  # a wake-up of an own partition waits so long for a slot; no other worker does the work
LATE_SHARE = 0.05  # part of a drain's time that a thread of this process then uses


class Poller(threading.Thread):
    """Starts work when a stream has unread entries, when a clock has run out, and every SWEEP_S.

    Survives any error of a server.
    """

    def __init__(
        self,
        url: str,
        store: Outage,
        wakeups: Wakeups,
        ownership: Ownership,
        hands: Hands,
        watches: Sequence[Watch],
        idle_ms: int,
        slot: str = "",
    ) -> None:
        super().__init__(name=f"poller{slot}", daemon=True)
        self._url = url
        self._store = store
        self._wakeups = wakeups
        self._ownership = ownership
        self._hands = hands
        self._watches = watches
        self._idle_ms = idle_ms
        self._ours: dict[str, Watch] = {}  # streams that this worker watches here
        self._left: list[Watch] = []  # streams that other workers watch
        self._open: dict[str, Watch] = {}  # of ours those that may have unread entries
        self._refused: dict[str, float] = {}  # streams that the server refused, with the time of the next look
        self._late: dict[Key, float] = {}  # work that waits for a slot of the pool, with its start
        self._sorted = self._ticked = self._swept = self._beat = 0.0
        self._whole: dict[int, float] = {}  # when each partition was swept whole
        self._ending = threading.Event()

    def stop(self) -> None:
        """Stop the thread, which ends within BLOCK_MS."""
        self._ending.set()

    def beats(self) -> list[Beat]:
        """Return a beat of this thread for each stream that it watches; it leaves out streams that the reader reads."""
        is_alive = self.is_alive() or self._ending.is_set()
        return [
            Beat(watch.stream, self._beat, is_alive, self._owner(watch) is not Owner.ELSEWHERE)
            for watch in self._watches
            if not watch.is_read
        ]

    def run(self) -> None:
        """Watch and send wake-ups until `stop`. It waits during an outage, and reports it once."""
        failures = 0
        while not self._ending.is_set():
            started = time.monotonic()
            try:
                with clients.connect(self._url, BLOCK_MS / 1000) as client, BlockingRead(client, BLOCK_MS) as read:
                    self._watch(client, read)
            except RedisError as error:
                self._store.begins(self.name, error)
            except Exception:
                log.exception("ingress failed", extra={"stream": "all"})
            failures = 0 if time.monotonic() - started > SWEEP_S else failures + 1
            self._beat = time.monotonic()
            self._ending.wait(pause(failures - 1) if failures else 0)

    def _watch(self, client: Redis, read: BlockingRead) -> None:
        self._ours, self._sorted, self._whole = {}, 0.0, {}
        streams = [watch.stream for watch in self._watches if not watch.is_read]
        self._make_groups(client, streams)
        for stream in streams:
            log.info("ingress consumes", extra={"stream": stream})
        while not self._ending.is_set():
            self._beat = time.monotonic()
            self._sort()
            self._tick(client)
            self._look(client)
            try:
                self._wait(client, read)
            except ResponseError as error:
                self._look_again(client, error)
            self._store.ends(self.name)

    def _owner(self, watch: Watch) -> Owner:
        return self._ownership.of(watch.partition.number) if watch.is_owned else Owner.NOBODY

    def _sort(self) -> None:
        """Update the streams to watch, and send a wake-up for each work that the pool has left."""
        if self._beat - self._sorted >= ELSEWHERE_S:
            self._sorted = self._beat
            owners = [self._owner(watch) for watch in self._watches]
            pairs = list(zip(self._watches, owners, strict=True))
            before, self._ours = (
                self._ours,
                {
                    watch.stream: watch
                    for watch, owner in pairs
                    if owner is Owner.NOBODY or (owner is Owner.HERE and not watch.is_read)
                },
            )
            self._left = [watch for watch, owner in pairs if owner is Owner.ELSEWHERE and watch.is_read]
            for stream in self._ours.keys() - before.keys():
                self._ours[stream].read_to = None
            self._open = {stream: watch for stream, watch in self._ours.items() if watch.read_to is None}
        if jobs.is_some_left():
            for watch in (*self._ours.values(), *self._left):
                if jobs.take_left(watch.work):  # it is pending here, and another owner does not know of it
                    self._wake(watch.work, watch.stuck_s, Owner.HERE)

    def _look(self, client: Redis) -> None:
        """Send a wake-up for each stream with unread entries, unless its work is in progress."""
        self._refused = {stream: again for stream, again in self._refused.items() if again > self._beat}
        free = [
            watch
            for stream, watch in self._open.items()
            if stream not in self._refused and not self._is_busy(watch.work, watch.stuck_s, self._owner(watch))
        ]
        for watch, found in zip(free, looks.unread(client, [watch.stream for watch in free]), strict=True):
            if found.last is None:
                self._make_groups(client, [watch.stream])
            if found.has_more or (watch.stream == GOALS and client.exists(GOALS_TURNS)):
                self._wake(watch.work, watch.stuck_s, self._owner(watch))
            elif found.last is not None:
                watch.read_to = found.last
                del self._open[watch.stream]

    def _wait(self, client: Redis, read: BlockingRead) -> None:
        """Wait for new entries in streams without unread ones; other streams are looked at after LOOK_S."""
        quiet = {stream: watch.read_to for stream, watch in self._ours.items() if stream not in self._open}
        if quiet and not read.streams:
            read.send(("XREAD", "COUNT", 1), quiet)
        rest = {stream: last for stream, last in quiet.items() if stream not in read.streams}
        if rest:  # until the read that waits is over
            found = functions.call(client, "XREAD", "COUNT", 1, "STREAMS", *rest, *rest.values())
            self._hear(found or ())
        if not read.streams:
            self._ending.wait(LOOK_S)
        elif read.is_ready(LOOK_S if rest or self._open.keys() - self._refused.keys() else BLOCK_MS / 1000):
            self._hear(read.receive())

    def _look_again(self, client: Redis, error: ResponseError) -> None:
        """Skip the streams that the server refuses. Raise the error if the server refuses none of them."""
        if clients.concerns_server(error) or not self._make_groups(client, list(self._ours)):
            raise error
        for watch in self._ours.values():
            watch.read_to = None
        self._open = dict(self._ours)

    def _make_groups(self, client: Redis, streams: Sequence[str]) -> bool:
        """Create the groups that are missing. Return whether a stream is refused; it is skipped for REFUSED_S."""
        refused = make_groups(client, streams)
        self._refused |= dict.fromkeys(refused, time.monotonic() + REFUSED_S)
        return bool(refused)

    def _hear(self, reply: Iterable[Any]) -> None:
        """Send wake-ups for the streams with new entries, unless those were read meanwhile."""
        for name, entries in reply:
            watch = self._ours.get(name.decode())
            if watch and watch.read_to is not None and _number(entries[0][0]) > _number(watch.read_to):
                watch.read_to = None
                self._open[watch.stream] = watch
                self._wake(watch.work, watch.stuck_s, self._owner(watch))

    def _tick(self, client: Redis) -> None:
        """Send wake-ups for upkeep if a clock has expired, and every SWEEP_S for entries of dead workers."""
        now = self._beat
        if now - self._ticked < BLOCK_MS / 1000:
            return
        self._ticked = now
        kept = [(watch, self._owner(watch)) for watch in self._watches if watch.upkeep]
        ours = [(watch, owner) for watch, owner in kept if owner is not Owner.ELSEWHERE]
        timed = [(watch, owner) for watch, owner in ours if watch.timers]
        found = looks.due(client, [watch.timers for watch, _ in timed])
        wanted: list[tuple[Watch, Owner]] = [timed[place] for place in found.places]
        if (goals := self._ours.get(GOALS)) and client.exists(GOALS_TURNS):
            self._open[GOALS], goals.read_to = goals, None
        if now - self._swept >= SWEEP_S:
            self._swept = now
            wanted += self._left_behind(client, ours)
        for watch, owner in wanted:
            if watch.upkeep and not self._is_busy(watch.upkeep, watch.stuck_s, owner):
                self._wake(watch.upkeep, watch.stuck_s, owner)

    def _left_behind(self, client: Redis, ours: Sequence[tuple[Watch, Owner]]) -> list[tuple[Watch, Owner]]:
        """Return the watches whose partitions need a sweep although no clock has expired.

        Own partitions where nothing happened are among them only from time to time, partitions of callbacks never.
        """
        mine = {watch.partition.number: watch.partition for watch, owner in ours if owner is Owner.HERE}
        wanted = set(looks.look_over(client, list(mine.values()), self._idle_ms))
        old = sorted((self._whole.get(number, 0.0), number) for number in mine)
        some = math.ceil(len(old) * SWEEP_S / WHOLE_S)
        wanted |= {number for place, (at, number) in enumerate(old) if not at or place < some}
        self._whole |= dict.fromkeys(wanted, self._beat)
        return [
            (watch, owner)
            for watch, owner in ours
            if (watch.partition.number in wanted if owner is Owner.HERE else watch.is_owned or not watch.timers)
        ]

    def _is_busy(self, key: Key, stuck_s: float, owner: Owner) -> bool:
        """Return whether the work is in progress, so that it needs no wake-up.

        If the work of an own partition has waited too long for the pool, a thread of this process also does it.
        """
        if self._hands.are_at(key):
            return True
        if self._wakeups.state(key, stuck_s) is not WakeupState.BUSY:
            self._late.pop(key, None)
            return False
        if owner is Owner.HERE and not self._wakeups.is_begun(key):
            now = time.monotonic()
            if now - self._late.setdefault(key, now) >= LATE_S:
                self._late[key] = now
                self._hands.do(key, LATE_SHARE)
        else:
            self._late.pop(key, None)
        return True

    def _wake(self, key: Key, stuck_s: float, owner: Owner) -> None:
        """Start the work in the pool. If this worker cannot use the broker, start it in a thread of this process."""
        state = self._wakeups.state(key, stuck_s)
        if state is WakeupState.FREE and self._wakeups.send(key, is_own=owner is Owner.HERE):
            return
        if state is not WakeupState.BUSY:
            self._hands.do(key)


def make_groups(client: Redis, streams: Sequence[str]) -> list[str]:
    """Create the streams and our group on them, if they are missing.

    Returns the streams that the server refuses, such as a key of another type. Raises the errors of a server that
    serves no stream.
    """
    refused = []
    for stream, found in zip(streams, looks.unread(client, streams), strict=True):
        if found.last is not None:
            continue
        try:
            with suppress(OutOfMemoryError):  # refused on a full server even where the group exists
                Inbox(client, stream, "", "").create_group()
        except ResponseError as error:
            if clients.concerns_server(error):
                raise
            log.error("stream refused", extra={"stream": stream, "error": str(error)})
            refused.append(stream)
    return refused


def _number(entry_id: bytes) -> tuple[int, int]:
    """Return the two numbers of an entry's id."""
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number or 0)
