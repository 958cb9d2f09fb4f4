"""The events of a plan over HTTP: server-sent events, read by a thread, and resumed after a lost connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread

from schemas import codec
from schemas.event import EVENT_PREFIX, EVENT_SUFFIX
from worker.client.http_link import FIRST_PAUSE_S, GatewayLink
from worker.client.planner import ENDS, GAP, PlanEvent
from worker.client.trouble import Away, Trouble

QUIET_S = 45.0  # after which a connection is taken for lost: a comment comes every 15 s
RETRY_S = 2.0  # maximum pause between two connections, unless the gateway asks for more
AWAY_S = 30.0  # time of an outage before it is reported


class HttpEvents:
    """The events of a plan, as a gateway streams them."""

    def __init__(self, link: GatewayLink, plan_id: str) -> None:
        self._link, self._plan_id = link, plan_id
        self._last = ""  # the position of the last event that was read
        self._came: SimpleQueue[PlanEvent | Trouble] = SimpleQueue()
        self._reader: Thread | None = None
        self._done = Event()
        self._socket: socket.socket | None = None
        self.ended = False

    def read(self, wait_s: float = 0.0) -> list[PlanEvent]:
        """Return the events that have arrived; wait at most `wait_s` seconds for the first.

        Raises Trouble after a long outage. A later call reads on.
        """
        if self._reader is None:
            self._reader = Thread(target=self._follow, name="events", daemon=True)
            self._reader.start()
        found: list[PlanEvent] = []
        while True:
            try:
                came = self._came.get(timeout=0 if found or not wait_s else wait_s)
            except Empty:
                return found
            if isinstance(came, Trouble):
                self._reader = None
                raise came
            self.ended |= came.what in ENDS
            found.append(came)

    def close(self) -> None:
        """Close the connection, which the thread may be waiting for."""
        self._done.set()
        if self._socket:
            with suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)

    def _follow(self) -> None:
        pause, since = FIRST_PAUSE_S, time.monotonic()
        while not self._done.is_set():
            try:
                for event in self._connection():
                    pause, since = FIRST_PAUSE_S, time.monotonic()
                    if event:
                        self._came.put(event)
            except Away as away:
                if time.monotonic() - since > AWAY_S:
                    self._came.put(away)
                    return
                pause = max(pause, away.retry_after_s)
            except Trouble as trouble:
                self._came.put(trouble)
                return
            self._done.wait(pause)
            pause = min(2 * pause, RETRY_S)

    def _connection(self) -> Iterator[PlanEvent | None]:
        """Yield the events of one connection, and None for each other sign of life."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": self._last} if self._last else {})}
        with self._link.stream("/v1/events", {"plan": self._plan_id}, headers, QUIET_S) as answer:
            self._socket = answer.extensions["network_stream"].get_extra_info("socket")
            yield None
            for position, kind, data in events_of(answer.iter_lines()):
                if self._done.is_set():
                    return
                if position:
                    self._last = position
                if not data:
                    yield None
                elif kind == GAP:
                    yield PlanEvent(position, GAP, codec.loads(data))
                else:
                    what = kind.removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX)
                    yield PlanEvent(position, what, codec.loads(data))


def events_of(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (id, event, data) of a stream of server-sent events; a comment becomes an empty event."""
    position = kind = ""
    data: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data or position:
                yield position, kind, "\n".join(data)
            position, kind, data = "", "", []
        elif not name:
            yield "", "", ""
        elif name == "id":
            position = value
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)
