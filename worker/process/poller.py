"""From the streams to Celery: threads that wait for news and send wake-ups.

A wake-up is a Celery task without a message. Losing one costs a delay, doubling one costs nothing, and while the broker
does not take any, or this worker does not hear from it, a thread does the work itself. For a partition that another
worker owns nobody is woken here. For one that this worker owns its own pool is, and what comes while the pool is idle
is applied here.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import suppress

from redis import Redis
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from worker.process import jobs
from worker.process.idle_drain import IdleDrain
from worker.process.ownership import Owner, Ownership
from worker.process.partition_engines import forget_plans
from worker.process.wakeup import Wakeups
from worker.process.wakeup_ledger import Key, WakeupState
from worker.process.watchdog import Beat
from worker.store import clients
from worker.store.keys import GOALS, GOALS_TURNS, GROUP
from worker.streams.inbox import Inbox, worker_name
from worker.telemetry.errors import reported_as
from worker.telemetry.outage import Outage, pause

log = logging.getLogger("planner.ingress")

BLOCK_MS = 200  # longest wait for news: also how late a due timer may be seen
LOOK_S = 0.01  # between looks at whether a task of ours still runs
WAKEUP_STUCK_S = (
    10.0  # a task of a partition ends after DRAIN_S and a batch; one that runs for longer is not waited for
)
SWEEP_S = 5.0  # between looks for entries of dead workers
ELSEWHERE_S = 0.05  # between looks whether a partition is another worker's still
TURN_S = 0.02  # for which the pool has its turn before a poller goes on by itself
TURN_LOOK_S = 0.002
LATE_S = 0.5  # for which a wake-up of an own partition may wait for a slot of the pool; nobody else does the work
LATE_SHARE = 0.05  # of a drain's time, for which a poller does it then


class Poller(threading.Thread):
    """Sees to it that `task` is done when its stream has unread entries.

    Sees to `upkeep` too, if named, every SWEEP_S or when a timer is due. A wake-up that has run for `stuck_s` no longer
    keeps the next one back: another process of the pool goes on then. Survives any error of a server.

    With `ownership` the partition has an owner, and with `drain` its outcomes are applied here while the pool is idle.
    """

    def __init__(
        self,
        url: str,
        store: Outage,
        wakeups: Wakeups,
        stream: str,
        task: str,
        upkeep: str,
        args: tuple[int, ...] = (),
        timers: str = "",
        stuck_s: float = math.inf,
        ownership: Ownership | None = None,
        drain: IdleDrain | None = None,
    ) -> None:
        super().__init__(name=f"ingress-{stream}", daemon=True)
        self._url = url
        self._store = store
        self._wakeups = wakeups
        self._stream = stream
        self._work = Key(task, args)
        self._upkeep = Key(upkeep, args) if upkeep else None
        self._timers = timers
        self._stuck_s = stuck_s
        self._ownership = ownership
        self._drain = drain
        self._is_pools = False  # whether the pool had the work at the last look
        self._woken = 0.0
        self._late: dict[Key, float] = {}  # what waits for a slot of the pool, and since when
        self._swept = self._ticked = self._beat = 0.0
        self._ending = threading.Event()

    def stop(self) -> None:
        """Ask the thread to end.

        It does within BLOCK_MS, or when the work in its own hand is done.
        """
        self._ending.set()

    def beat(self) -> Beat:
        """Tell when this thread last went round, and whether it is there."""
        is_alive = self.is_alive() or self._ending.is_set()
        return Beat(self._stream, self._beat, is_alive, self._owner() is not Owner.ELSEWHERE)

    def run(self) -> None:
        """Wait and send wake-ups until stopped.

        A server that is away is waited for, and said once.
        """
        failures = 0
        while not self._ending.is_set():
            started = time.monotonic()
            try:
                with clients.connect(self._url, BLOCK_MS / 1000) as client:
                    self._watch(client)
            except RedisError as error:
                self._store.begins(self._stream, error)
            except Exception:
                log.exception("ingress failed", extra={"stream": self._stream})
            failures = 0 if time.monotonic() - started > SWEEP_S else failures + 1
            self._beat = time.monotonic()
            self._ending.wait(pause(failures - 1) if failures else 0)

    def _watch(self, client: Redis) -> None:
        inbox = Inbox(client, self._stream, "", worker_name())
        with suppress(OutOfMemoryError):  # refused on a full server even where the group exists
            inbox.create_group()
        log.info("ingress consumes", extra={"stream": self._stream})
        while not self._ending.is_set():
            self._beat = time.monotonic()
            owner = self._owner()
            if self._ownership and self._drain:
                self._ownership.note_watched(*self._work.args)
            if self._drain and self._drain.has_left and owner is not Owner.HERE:
                self._drain.finish()
            if owner is Owner.ELSEWHERE:
                self._leave()
            elif owner is Owner.HERE and self._drain:
                self._tick(client, owner)
                self._apply(client, inbox, self._drain)
            else:
                self._tick(client, owner)
                self._look(client, inbox, owner)
            self._store.ends(self._stream)

    def _owner(self) -> Owner:
        return self._ownership.of(*self._work.args) if self._ownership else Owner.NOBODY

    def _leave(self) -> None:
        """Leave the partition to its owner, but for what this worker's pool was left with."""
        if self._drain:
            forget_plans(*self._work.args)
        if jobs.take_left(self._work):  # it is pending here, and the owner does not know of it
            self._wake(self._work, Owner.HERE)
        self._ending.wait(ELSEWHERE_S)

    def _look(self, client: Redis, inbox: Inbox, owner: Owner) -> None:
        """Wake the pool when there is news, unless it has the work already."""
        if self._is_busy(self._work, owner):
            self._ending.wait(LOOK_S)
        elif jobs.take_left(self._work):
            self._wake(self._work, Owner.HERE)
        elif self._has_news(client, inbox, BLOCK_MS):
            self._wake(self._work, owner)

    def _apply(self, client: Redis, inbox: Inbox, drain: IdleDrain) -> None:
        """Apply what comes here, unless the pool does, and wake that when it is much.

        Behind a drain of the pool it goes on itself where more has come: it knows the plans.
        """
        is_busy = self._wakeups.state(self._work, self._stuck_s) is WakeupState.BUSY
        if is_busy and (self._wakeups.is_begun(self._work) or time.monotonic() - self._woken < TURN_S):
            self._is_pools = True
            self._ending.wait(TURN_LOOK_S if time.monotonic() - self._woken < TURN_S else LOOK_S)
            return
        self._is_pools = self._is_pools and not is_busy and self._has_news(client, inbox, None)
        if jobs.take_left(self._work) or self._is_pools or drain.step(client, BLOCK_MS):
            self._wake(self._work, Owner.HERE)

    def _is_busy(self, key: Key, owner: Owner) -> bool:
        """Whether a wake-up is under way.

        That of an own partition is done here as well where it waits for long.
        """
        if self._wakeups.state(key, self._stuck_s) is not WakeupState.BUSY:
            self._late.pop(key, None)
            return False
        if owner is Owner.HERE and not self._wakeups.is_begun(key):
            now = time.monotonic()
            if now - self._late.setdefault(key, now) >= LATE_S:
                self._late[key] = now
                self._do(key, LATE_SHARE)
        else:
            self._late.pop(key, None)
        return True

    def _has_news(self, client: Redis, inbox: Inbox, block_ms: int | None) -> bool:
        """Wait up to `block_ms` for an entry that no member of the group has read.

        Goals may wait for their turn, too.
        """
        try:
            (group,) = (group for group in client.xinfo_groups(self._stream) if group["name"] == GROUP.encode())
        except (ResponseError, ValueError):
            inbox.create_group()
            return False
        if self._stream == GOALS and client.exists(GOALS_TURNS):
            return True
        return bool(client.xread({self._stream: group["last-delivered-id"]}, count=1, block=block_ms))

    def _tick(self, client: Redis, owner: Owner) -> None:
        """Wake the upkeep when a timer is due, and now and then for what dead workers left."""
        now = time.monotonic()
        if not self._upkeep or now - self._ticked < BLOCK_MS / 1000:
            return
        if self._is_busy(self._upkeep, owner):
            return
        self._ticked = now
        is_due = now - self._swept >= SWEEP_S
        if not is_due and self._timers:
            pipeline = client.pipeline(transaction=False)
            pipeline.zrange(self._timers, 0, 0, withscores=True)
            pipeline.time()
            first, (seconds, _) = pipeline.execute()
            is_due = bool(first) and first[0][1] <= seconds * 1000
        if is_due:
            self._swept = now
            self._wake(self._upkeep, owner)

    def _wake(self, key: Key, owner: Owner = Owner.NOBODY) -> None:
        """Have it done: by the pool, or here and now where the broker does not take the wake-up, or is not heard."""
        state = self._wakeups.state(key, self._stuck_s)
        if state is WakeupState.FREE and self._wakeups.send(key, is_own=owner is Owner.HERE):
            self._woken = time.monotonic()
        elif state is not WakeupState.BUSY:
            self._do(key)

    def _do(self, key: Key, share: float = 1.0) -> None:
        with reported_as(key.task):
            jobs.do(key, share)
