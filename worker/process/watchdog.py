"""Checks servers and threads every second, and ends a worker that does nothing.

The results are in the worker's status file.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import RedisError

from tasks.routes import ROUTES
from worker.engine.goal_consumer import RENEW_S
from worker.settings.settings import Settings
from worker.store import clients, deployment, keys, looks
from worker.store.keys import GROUP
from worker.store.memory import share_of
from worker.streams.fair_inbox import DRAFTING
from worker.telemetry.outage import Outage
from worker.telemetry.status import Status, StatusFile

log = logging.getLogger("planner.watchdog")

LOOK_S = 1.0
PATIENCE_S = 2.0  # with a store that does not answer
TURN_S = 1.0  # for each stream, if there are very many: a busy one waits until the pool has served the others
SLOW = {stream.format(): route.task for route in ROUTES if route.is_slow for stream in route.streams}
RENEWED = (keys.GOALS, keys.WEBHOOK_JOBS)  # streams whose entries are renewed during the work


class Beat(NamedTuple):
    """A sign of life of the thread that watches a stream.

    `at` is the monotonic time in seconds, 0 before the first one. `begins` is False if another worker owns the
    partition and so processes its entries.
    """

    stream: str
    at: float
    alive: bool
    begins: bool = True


class WorkerPool(NamedTuple):
    """The pool of this worker."""

    slots: int  # tasks at a time
    pids: frozenset[int]  # processes that read streams
    tasks: Mapping[str, str]  # the wake-ups that were taken and have not ended: id -> task


class Sight(NamedTuple):
    """The result of one look at the store."""

    unread: Mapping[str, bytes]  # streams with unread entries, and the last read one
    pending: Mapping[str, bytes]  # streams with an oldest pending entry of this worker: that entry
    at_work: frozenset[str]  # streams and tasks with signs of work
    lag_s: float
    memory: float | None = None  # share of maxmemory in use


class Standing(NamedTuple):
    """A thing that makes no progress: `reason` describes it, and its `value` changes with any progress."""

    reason: str
    value: Hashable
    extra_s: float = 0.0  # grace time in addition to the limit


class Judge:
    """Decides when a worker is stuck. Pure: it uses only its arguments."""

    def __init__(self, limit_s: float, claim_idle_s: float) -> None:
        self._limit_s = limit_s
        self._claim_idle_s = claim_idle_s
        self._since: dict[Standing, float] = {}

    def verdict(self, sight: Sight | None, beats: Sequence[Beat], pool: WorkerPool, now: float) -> str:
        """Return the reason why this worker is stuck, in a few words; empty if it is not, or if that is unknown."""
        if dead := [beat.stream for beat in beats if not beat.alive]:
            return f"the watch of {', '.join(dead)} has ended"
        standing = self._standing(sight, beats, pool) if sight else ()  # the time before an outage does not count
        self._since = {each: self._since.get(each, now) for each in standing}
        limit = max(self._limit_s, TURN_S * len(beats))
        return next((each.reason for each, since in self._since.items() if now - since >= limit + each.extra_s), "")

    def _standing(self, sight: Sight, beats: Sequence[Beat], pool: WorkerPool) -> Iterator[Standing]:
        """Yield each thing that makes no progress, unless a sign of work explains that."""
        for stream, beat, *_ in beats:
            if stream not in sight.at_work:
                yield Standing(f"the watch of {stream} hangs", beat)
        others = {beat.stream for beat in beats if not beat.begins}
        slow = [task for task in pool.tasks.values() if task in sight.at_work]
        for stream, place in sight.unread.items():
            if stream not in sight.at_work | others and len(slow) < pool.slots:
                yield Standing(f"entries of {stream} wait and none is begun", place)
        for stream, entry in sight.pending.items():
            if stream not in sight.at_work:
                yield Standing(f"entries of {stream} are begun and not applied", entry, self._claim_idle_s)
        for request, task in pool.tasks.items():
            if task not in sight.at_work:
                yield Standing(f"{task} does not end", request)


class Watchdog(threading.Thread):
    """The thread that checks the worker every second, and calls `terminate` once with a reason if the worker is stuck.

    At each look it calls `beats`, `pool` and `owned`, which returns the partitions that this worker owns.
    """

    def __init__(
        self,
        settings: Settings,
        broker: Outage,
        beats: Callable[[], Sequence[Beat]],
        pool: Callable[[], WorkerPool],
        terminate: Callable[[str], None],
        partitions: Sequence[keys.Partition],
        owned: Callable[[], tuple[int, ...]],
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._settings = settings
        self._broker = broker
        self._beats = beats
        self._pool = pool
        self._terminate = terminate
        self._partitions = partitions
        self._owned = owned
        self._file = StatusFile(settings)
        self._since = time.time()
        self._ending = threading.Event()
        self._client: Redis | None = None
        self._refused: str | None = None
        self._status: Status | None = None

    def troubles(self, is_ready: bool) -> Sequence[str]:
        """Return the reasons why the worker cannot work; unless `is_ready`, only if the watchdog does not run."""
        now, status = time.time(), self._status
        if status is None or not status.lives(now):
            return ("the worker does not look at itself",)
        return status.troubles(now) if is_ready else ()

    def stop(self) -> None:
        """Stop judging, because the worker is ending. Its signs of life continue to its end."""
        self._ending.set()

    def run(self) -> None:
        """Check until the process ends."""
        judge = Judge(self._settings.watchdog_s, self._settings.claim_idle_s)
        while True:
            beats, pool = self._beats(), self._pool()
            sight = self._look([beat.stream for beat in beats], pool.pids)
            self._write_status(beats, sight)
            stuck = self._disagreement(beats) or judge.verdict(sight, beats, pool, time.monotonic())
            if stuck and not self._ending.is_set():
                self._ending.set()
                self._terminate(stuck)
            time.sleep(LOOK_S)

    def _look(self, streams: Sequence[str], pids: frozenset[int]) -> Sight | None:
        """Return the result of a look at the store, in one round trip; None if the store does not answer."""
        try:
            if self._client is None:
                self._client = clients.connect(self._settings.redis_url, patience_s=PATIENCE_S)
            ours = tuple(f"{socket.gethostname()}-{pid}-".encode() for pid in pids)  # begins the consumers' names
            sight = self._ask(self._client, streams, ours)
            self._refused = None
            return sight
        except RedisError as error:
            why = clients.refusal(error, self._settings.redis_url)
            self._refused = str(why).rstrip(".") if why else None
            log.debug("no look at the store", extra={"error": str(error)})
        except Exception:  # a thread that has ended would look like a worker that is gone
            log.exception("watchdog failed")
        return None

    def _disagreement(self, beats: Sequence[Beat]) -> str:
        """Return why this worker must not continue with its server: the server's data were emptied or replaced.

        Returns an empty text if it may continue, or if the server does not answer.
        """
        try:
            if self._client and beats:  # else it is only starting, which compares them, too
                deployment.join(self._client, self._settings.partitions)
        except deployment.WrongDeployment as error:
            return str(error)
        except RedisError as error:
            log.debug("no look at the deployment", extra={"error": str(error)})
        return ""

    def _ask(self, client: Redis, streams: Sequence[str], ours: tuple[bytes, ...]) -> Sight:
        pipeline = client.pipeline(transaction=False)
        pipeline.execute_command(*looks.waiting_call(streams))
        pipeline.execute_command(*looks.due_call([partition.timers for partition in self._partitions]))
        for stream in RENEWED:
            pipeline.xinfo_consumers(stream, GROUP)
        pipeline.exists(keys.COMMANDS_LOCK)
        pipeline.info("memory")
        pipeline.time()
        waiting, due, goals, webhooks, lock, memory, clock = pipeline.execute(raise_on_error=False)
        if isinstance(clock, RedisError):  # such as LOADING
            raise clock
        there = looks.waiting(streams, waiting) if isinstance(waiting, list) else []
        first = looks.read_due(due).first if isinstance(due, list) else None
        return Sight(
            unread={one.stream: one.last for one in there if one.length > one.pending},
            pending={
                one.stream: one.oldest for one in there if one.stream not in RENEWED and one.consumer.startswith(ours)
            },
            at_work=_at_work(dict(zip(RENEWED, (goals, webhooks), strict=True)), lock, ours),
            lag_s=0.0 if first is None else max(0.0, clock[0] - first / 1000),
            memory=share_of(memory) if isinstance(memory, dict) else None,
        )

    def _write_status(self, beats: Sequence[Beat], sight: Sight | None) -> None:
        now = time.time()
        self._status = Status(
            pid=os.getpid(),
            host=socket.gethostname(),
            started=self._since,
            beat=now,
            streams={beat.stream: now - (time.monotonic() - beat.at) for beat in beats if beat.at},
            store=sight is not None,
            broker=not self._broker.lasts,
            sweep_lag_s=sight.lag_s if sight else None,
            refused=self._refused,
            owned=self._owned(),
            memory=sight.memory if sight else None,
        )
        self._file.write(self._status)


def _at_work(consumers: Mapping[str, Any], lock: Any, ours: tuple[bytes, ...]) -> frozenset[str]:
    """Return the streams, and their tasks, with an entry whose claim a process of this worker renews.

    The stream of bulk commands is one of them if any worker obeys them.
    """
    found = [stream for stream, answer in consumers.items() if has_in_hand(answer, ours)]
    found += [keys.COMMANDS] if lock == 1 else []
    return frozenset(name for stream in found for name in (stream, SLOW[stream]))


def has_in_hand(consumers: Any, ours: tuple[bytes, ...]) -> bool:
    """Return whether a consumer with a prefix of `ours` renews an entry; consumers that ask a drafter do not count."""
    if not isinstance(consumers, list):  # there is no such stream yet
        return False
    fresh = [one["name"] for one in consumers if one["pending"] and one["idle"] < 2000 * RENEW_S]
    return any(name.startswith(ours) and not name.endswith(DRAFTING.encode()) for name in fresh)
