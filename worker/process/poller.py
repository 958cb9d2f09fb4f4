"""From the streams to Celery: threads that wait for news and send wake-ups.

A wake-up is a Celery task without a message. Losing one costs a delay, doubling one costs nothing, and while the broker
does not take any, or this worker does not hear from it, a thread does the work itself.
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
from worker.process.wakeup import Wakeups
from worker.process.wakeup_ledger import Key, WakeupState
from worker.process.watchdog import Beat
from worker.store import clients
from worker.store.keys import GOALS, GOALS_TURNS, GROUP
from worker.streams.inbox import Inbox, worker_name
from worker.telemetry.outage import Outage, pause

log = logging.getLogger("planner.ingress")

BLOCK_MS = 200  # longest wait for news: also how late a due timer may be seen
LOOK_S = 0.01  # between looks at whether a task of ours still runs
WAKEUP_STUCK_S = (
    10.0  # a task of a partition ends after DRAIN_S and a batch; one that runs for longer is not waited for
)
SWEEP_S = 5.0  # between looks for entries of dead workers


class Poller(threading.Thread):
    """Sees to it that `task` is done when its stream has unread entries.

    Sees to `upkeep` too, if named, every SWEEP_S or when a timer is due. A wake-up that has run for `stuck_s` no longer
    keeps the next one back: another process of the pool goes on then. Survives any error of a server.
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
        self._swept = self._ticked = self._beat = 0.0
        self._ending = threading.Event()

    def stop(self) -> None:
        """Ask the thread to end.

        It does within BLOCK_MS, or when the work in its own hand is done.
        """
        self._ending.set()

    def beat(self) -> Beat:
        """Tell when this thread last went round, and whether it is there."""
        return Beat(self._stream, self._beat, self.is_alive() or self._ending.is_set())

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
            self._tick(client)
            if self._wakeups.state(self._work, self._stuck_s) is WakeupState.BUSY:
                self._ending.wait(LOOK_S)
                continue
            if jobs.take_left(self._work) or self._has_news(client, inbox):
                self._wake(self._work)
            self._store.ends(self._stream)

    def _has_news(self, client: Redis, inbox: Inbox) -> bool:
        """Wait up to BLOCK_MS for an entry that no member of the group has read; goals may wait for their turn, too."""
        try:
            (group,) = (group for group in client.xinfo_groups(self._stream) if group["name"] == GROUP.encode())
        except (ResponseError, ValueError):
            inbox.create_group()
            return False
        if self._stream == GOALS and client.exists(GOALS_TURNS):
            return True
        return bool(client.xread({self._stream: group["last-delivered-id"]}, count=1, block=BLOCK_MS))

    def _tick(self, client: Redis) -> None:
        """Wake the upkeep when a timer is due, and now and then for what dead workers left."""
        now = time.monotonic()
        if not self._upkeep or now - self._ticked < BLOCK_MS / 1000:
            return
        if self._wakeups.state(self._upkeep, self._stuck_s) is WakeupState.BUSY:
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
            self._wake(self._upkeep)

    def _wake(self, key: Key) -> None:
        """Have it done: by the pool, or here and now where the broker does not take the wake-up, or is not heard."""
        state = self._wakeups.state(key, self._stuck_s)
        if state is WakeupState.DEAF or (state is WakeupState.FREE and not self._wakeups.send(key)):
            jobs.do(key)
