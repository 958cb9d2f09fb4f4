"""From the streams to Celery: a bootstep whose threads wait for news and send nudges (DESIGN.md section 3).

A nudge is a Celery task without a message. Losing one costs a delay, doubling one costs nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from celery import bootsteps
from celery.worker import state
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from worker import clients
from worker.inbox import Inbox, worker_name
from worker.settings import Settings, load
from worker.store import functions, keys
from worker.store.keys import GROUP, Partition

log = logging.getLogger("planner.ingress")

BLOCK_MS = 200  # longest wait for news: also how late a due timer may be seen
LOOK_S = 0.01  # between looks at whether a task of ours still runs
NUDGE_LOST_S = 0.25  # a nudge that neither runs here nor made the stream move is sent again
SWEEP_S = 5.0  # between looks for entries of dead workers
BACKOFF_S = (0.1, 0.5, 1.0, 2.0)


class Watch(threading.Thread):
    """Sends `task` when its stream has unread entries; and `upkeep`, if named, every SWEEP_S or when a timer is due.

    Survives any error of a server.
    """

    def __init__(
        self, app: Any, url: str, stream: str, task: str, upkeep: str, args: tuple[int, ...] = (), timers: str = ""
    ) -> None:
        super().__init__(name=f"ingress-{stream}", daemon=True)
        self._app = app
        self._url = url
        self._stream = stream
        self._task = task
        self._args = args
        self._upkeep = upkeep
        self._timers = timers
        self._asked: dict[str, float] = {}
        self._swept = self._ticked = 0.0
        self._ending = threading.Event()

    def stop(self) -> None:
        """Ask the thread to end; it does within BLOCK_MS."""
        self._ending.set()

    def run(self) -> None:
        """Wait and nudge until stopped; a server that is away is waited for, and said once."""
        failures = 0
        while not self._ending.is_set():
            try:
                with clients.connect(self._url, BLOCK_MS / 1000) as client:
                    self._watch(client)
            except Exception as error:
                if not failures:
                    log.warning("ingress waits", extra={"stream": self._stream, "error": str(error)})
                self._ending.wait(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
            else:
                failures = 0

    def _watch(self, client: Redis) -> None:
        inbox = Inbox(client, self._stream, "", worker_name())
        inbox.create_group()
        log.info("ingress consumes", extra={"stream": self._stream})
        while not self._ending.is_set():
            self._tick(client)
            if self._in_flight(self._task):
                self._ending.wait(LOOK_S)
            elif self._has_news(client, inbox):
                self._nudge(self._task)

    def _has_news(self, client: Redis, inbox: Inbox) -> bool:
        """Wait up to BLOCK_MS for an entry that no member of the group has read."""
        try:
            (group,) = (group for group in client.xinfo_groups(self._stream) if group["name"] == GROUP.encode())
        except (ResponseError, ValueError):
            inbox.create_group()
            return False
        return bool(client.xread({self._stream: group["last-delivered-id"]}, count=1, block=BLOCK_MS))

    def _tick(self, client: Redis) -> None:
        """Nudge the upkeep when a timer is due, and now and then for what dead workers left."""
        now = time.monotonic()
        if not self._upkeep or now - self._ticked < BLOCK_MS / 1000 or self._in_flight(self._upkeep):
            return
        self._ticked = now
        if now - self._swept >= SWEEP_S or (self._timers and self._is_due(client)):
            self._swept = now
            self._nudge(self._upkeep)

    def _is_due(self, client: Redis) -> bool:
        pipeline = client.pipeline(transaction=False)
        pipeline.zrange(self._timers, 0, 0, withscores=True)
        pipeline.time()
        first, (seconds, _) = pipeline.execute()
        return bool(first) and first[0][1] <= seconds * 1000

    def _nudge(self, task: str) -> None:
        self._app.send_task(task, self._args, ignore_result=True)
        self._asked[task] = time.monotonic()

    def _in_flight(self, task: str) -> bool:
        """Whether a nudge of ours is under way, or this worker runs such a task for the same stream."""
        if any(r.name == task and tuple(r.args) == self._args for r in list(state.requests.values())):
            self._asked.pop(task, None)
            return True
        return time.monotonic() - self._asked.get(task, -NUDGE_LOST_S) < NUDGE_LOST_S


class Ingress(bootsteps.StartStopStep):
    """Starts a watch for each stream whose queue this worker consumes; stops them before the pool drains."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._watches: Sequence[Watch] = ()

    def start(self, parent: Any) -> None:
        """Check the server, load the functions, begin to watch."""
        settings = load()
        with clients.connect(settings.redis_url) as client:
            wait_for(client)
            if not settings.allow_unsafe_redis:
                clients.check_safe(client)
            functions.load(client)
        self._watches = _watches(parent.app, settings)
        for watch in self._watches:
            watch.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002 (Celery's signature)
        """Stop asking for work; what runs goes on to its end."""
        for watch in self._watches:
            watch.stop()
        for watch in self._watches:
            watch.join()


def wait_for(client: Redis) -> None:
    """Wait until the server answers; says so once."""
    for tries in range(10**9):
        try:
            client.ping()
        except RedisError as error:
            if not tries:
                log.warning("waiting for Redis", extra={"error": str(error)})
            time.sleep(BACKOFF_S[min(tries, len(BACKOFF_S) - 1)])
        else:
            return


def _watches(app: Any, settings: Settings) -> list[Watch]:
    consumed = set(app.amqp.queues.consume_from)
    found = []
    if "planner.decompose" in consumed:
        found.append(Watch(app, settings.redis_url, keys.GOALS, "planner.decompose", "planner.decompose"))
    for number in range(settings.partitions):
        part = Partition(number)
        if "planner.outcomes" in consumed:
            found.append(Watch(app, settings.redis_url, part.commands, "planner.outcomes", "", (number,)))
            found.append(
                Watch(
                    app,
                    settings.redis_url,
                    part.outcomes,
                    "planner.outcomes",
                    "planner.upkeep",
                    (number,),
                    part.timers,
                )
            )
    return found
