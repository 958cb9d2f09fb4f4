"""Watches the queues that callers of this gateway wait for, over one connection for all of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from worker.store import claims
from worker.telemetry.outage import pause

log = logging.getLogger("planner.gateway")

BLOCK_S = 1.0  # maximum delay until the watch covers a new queue; until then its callers poll


class QueueWatch(threading.Thread):
    """Reads without a consumer group, so that it claims no entry.

    Calls `tell` with the queues that have new entries.
    """

    def __init__(self, client: Redis, tell: Callable[[Iterable[str]], None]) -> None:
        super().__init__(name="queue-watch", daemon=True)
        self._client = client
        self._tell = tell
        self._change = threading.Condition()
        self._wanted: frozenset[str] = frozenset()
        self._seen: dict[str, str] = {}  # watched queues, each with the last entry that was reported
        self._over = False

    def covers(self, stream: str) -> bool:
        """Return whether new entries of the queue are noticed at once."""
        return stream in self._seen

    def want(self, streams: Iterable[str]) -> None:
        """Watch these queues from now on, and no others."""
        found = frozenset(streams)
        if found != self._wanted:
            with self._change:
                self._wanted = found
                self._change.notify()

    def stop(self) -> None:
        """Stop soon."""
        with self._change:
            self._over = True
            self._change.notify()

    def run(self) -> None:
        """Watch until `stop`."""
        failures = 0
        while not self._over:
            with self._change:
                self._change.wait_for(lambda: self._wanted or self._over)
            try:
                self._watch()
                failures = 0
            except RedisError as error:
                self._seen = {}  # callers that wait poll meanwhile, and notice the outage, too
                failures += 1
                log.debug("queues are not watched", extra={"error": str(error)})
                with self._change:
                    self._change.wait_for(lambda: self._over, pause(failures))

    def _watch(self) -> None:
        """Watch the wanted queues until one has new entries, or until it is time to read the wanted queues again."""
        wanted = self._wanted
        fresh = [stream for stream in wanted if stream not in self._seen]
        # The place is read before the queue is reported: so a read finds entries that are added in between.
        found = claims.newest(self._client, fresh) if fresh else {}
        self._seen = {**{stream: self._seen[stream] for stream in wanted if stream in self._seen}, **found}
        if fresh:
            self._tell(fresh)
        if not wanted:
            return
        places: dict[Any, Any] = dict(self._seen)
        reply: Any = self._client.xread(places, count=1, block=int(BLOCK_S * 1000))
        if news := [stream.decode() for stream, _ in reply or ()]:
            self._seen = {**self._seen, **claims.newest(self._client, news)}
            self._tell(news)
