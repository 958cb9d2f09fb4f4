"""Reads the events of all partitions over one connection, and hands them to the subscribers in this process.

A subscriber receives every wanted event after the start of its subscription. A subscription buffers a bounded number of
bytes. If its reader is too slow, the subscription drops its buffer and delivers a Gap; other subscriptions are not
affected.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as TookTooLong

from worker.gateway.event_position import NO_EPOCH, Position, entry_of, place_of
from worker.gateway.event_streams import Ends, Event, Gap, decoded, ends_of, epoch_of, partitions_of, resume
from worker.store import clients
from worker.store.keys import Partition
from worker.telemetry.outage import Outage, pause

log = logging.getLogger("planner.events")

BLOCK_S = 0.25
PAGE = 500  # events of a stream that are read at once
LOOK_S = 1.0  # between checks that Redis still has the same data
READY_S = 5.0  # time that a subscriber waits for the first connection
BATCHES = 4  # that are read and not handed out; then reading waits
HELD_BYTES = 1024 * 1024  # of a subscription


def everything(_: Event) -> bool:
    """Accept every event."""
    return True


class Subscription:
    """Buffers the events since the subscription began, in order, until its reader takes them."""

    def __init__(self, position: Callable[[], Position], wants: Callable[[Event], bool]) -> None:
        self.start = position()  # all events of the subscription are after it
        self._position = position
        self.is_over = False  # the process ends, and nothing more comes
        self._wants = wants
        self._items: deque[Event | Gap] = deque()
        self._bytes = 0
        self._came = asyncio.Event()

    @property
    def position(self) -> Position:
        """The position of a reader who has taken everything, including events that were not wanted."""
        return self._position()

    async def next(self, timeout_s: float | None = None) -> Event | Gap | None:
        """Return the next event or gap; None at the timeout or if the process ends.

        After a Gap, read the state again: the events before it are missing.
        """
        await self._wait(timeout_s)
        if not self._items:
            return None
        item = self._items.popleft()
        self._bytes -= item.size
        return item

    async def batch(self, timeout_s: float) -> list[Event | Gap]:
        """Return all items as soon as there is one.

        An empty list after `wake`, at the timeout, or at the process's end.
        """
        await self._wait(timeout_s)
        items = list(self._items)
        self._items.clear()
        self._bytes = 0
        return items

    async def _wait(self, timeout_s: float | None) -> None:
        if self._items or self.is_over:
            return
        self._came.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._came.wait()
        except TimeoutError:
            return

    def offer(self, item: Event | Gap) -> None:
        """Buffer a wanted event, or a gap. If the buffer is full, one gap replaces all its items."""
        if isinstance(item, Event) and not self._wants(item):
            return
        if self._bytes + item.size > HELD_BYTES:
            self._items.clear()
            self._bytes = 0
            item = Gap("overrun", item.position)
        if not self._items:
            self._came.set()
        self._bytes += item.size
        self._items.append(item)

    def wake(self) -> None:
        """Wake a waiting reader without an event."""
        self._came.set()

    def end(self) -> None:
        """Wake a waiting reader for the last time: no more events follow."""
        self.is_over = True
        self.wake()


class EventHub:
    """Reads events for a process, in a thread that starts with the first subscription.

    Everything but the reading runs in the event loop of the subscribers.
    """

    def __init__(self, url: str, partitions: int) -> None:
        self._url = url
        self._partitions = partitions
        self.subscriptions = 0  # how many there are
        self._subscriptions: dict[Hashable, set[Subscription]] = {}
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._ready = asyncio.Event()
        self._room = threading.Semaphore(BATCHES)
        self._outage = Outage("events")
        self._position: Position | None = None  # of the events that were handed out
        self._read: Position | None = None  # of the events that were read

    @asynccontextmanager
    async def subscribe(
        self,
        *,
        plans: Collection[str] = (),
        goal: tuple[str, str] | None = None,
        wants: Callable[[Event], bool] = everything,
    ) -> AsyncIterator[Subscription]:
        """Buffer the wanted events of these plans, of a goal (tenant, id), or of all plans, while the block lasts.

        Subscribe first, then read the state: so no event is missed between the two. Raises ConnectionError if Redis has
        been away since this process began.
        """
        await self._begin()
        subscription = Subscription(self._behind, wants)
        names: list[Hashable] = [goal] if goal else list(plans) or [None]
        for name in names:
            self._subscriptions.setdefault(name, set()).add(subscription)
        subscription.is_over = self._ending.is_set()
        self.subscriptions += 1
        try:
            yield subscription
        finally:
            self.subscriptions -= 1
            for name in names:
                left = self._subscriptions[name]
                left.discard(subscription)
                if not left:
                    del self._subscriptions[name]

    async def position(self) -> Position:
        """Return the position after the last event that the process has read."""
        await self._begin()
        return self._behind()

    def _behind(self) -> Position:
        assert self._position  # noqa: S101 (it is there once the hub is ready)
        return self._position

    def _every(self) -> set[Subscription]:
        return set().union(*self._subscriptions.values())

    def end(self) -> None:
        """End every subscription at once, and the reading soon."""
        self._ending.set()
        for subscription in self._every():
            subscription.end()

    def join(self) -> None:
        """Wait until the thread has ended; call it after `end`, and outside of the event loop."""
        if self._thread:
            self._thread.join()

    async def _begin(self) -> None:
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, args=(loop,), name="events", daemon=True)
            self._thread.start()
        try:
            async with asyncio.timeout(READY_S):
                await self._ready.wait()
        except TimeoutError:
            raise NoConnection("no events were read yet") from None

    def _hand_out(self, items: Sequence[Event | Gap], position: Position) -> None:
        """Offer events to the subscriptions that may want them. Runs in the event loop."""
        self._room.release()
        self._position = position
        self._ready.set()
        held = self._subscriptions
        for item in items:
            if isinstance(item, Gap):
                interested = self._every()
            else:
                names = (None, item.data.get("plan_id"), item.goal)
                interested = set().union(*(held[name] for name in names if name in held))
            for subscription in interested:
                subscription.offer(item)

    # What follows runs in the thread.

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        failures = 0
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                with clients.connect(self._url, BLOCK_S) as client:
                    self._follow(client, loop)
            except RedisError as error:
                self._outage.begins("hub", error)
            except Exception:
                log.exception("events failed")
            failures = 0 if time.monotonic() - began > LOOK_S else failures + 1
            self._ending.wait(pause(failures - 1) if failures else 0)

    def _follow(self, client: Redis, loop: asyncio.AbstractEventLoop) -> None:
        looked = float("-inf")
        while not self._ending.is_set():
            if time.monotonic() - looked >= LOOK_S:
                looked = time.monotonic()
                is_first, gap = self._read is None, self._look_or_go_on(client)
                if gap or is_first:
                    self._send([gap] if gap else [], loop)
            if events := self._next(client):
                self._send(events, loop)

    def _send(self, items: Sequence[Event | Gap], loop: asyncio.AbstractEventLoop) -> None:
        position = self._read
        assert position  # noqa: S101 (it was looked at)
        while not self._room.acquire(timeout=BLOCK_S):
            if self._ending.is_set():
                return
        try:
            loop.call_soon_threadsafe(self._hand_out, items, position)
        except RuntimeError:  # the loop is closed
            self._ending.set()

    def _look_or_go_on(self, client: Redis) -> Gap | None:
        """Return a gap as `_look` does; None if a server of a cluster is away, so that other servers' events go on."""
        try:
            gap = self._look(client)
        except (NoConnection, TookTooLong) as error:
            if not clients.has_several(client):
                raise
            self._outage.begins("hub", error)
            if self._read is None:
                self._read = self._begin_now(client)
            return None
        self._outage.ends("hub")
        return gap

    def _look(self, client: Redis) -> Gap | None:
        """Return a gap if the next events do not follow the events that were read, else None."""
        count = partitions_of(client, self._partitions)
        epoch, ends = epoch_of(client, count), ends_of(client, count)
        now = Position(epoch, tuple(each.last for each in ends))
        self._read, reason = resume(self._read or now, epoch, ends)
        return Gap(reason, self._read) if reason else None

    def _begin_now(self, client: Redis) -> Position:
        """Return the position after the last stored events; the current time where a server is away."""
        now = Ends.at(int(1000 * time.time()))
        return Position(NO_EPOCH, tuple(each.last for each in ends_of(client, self._partitions, away=now)))

    def _next(self, client: Redis) -> list[Event]:
        """Wait for events and read them."""
        position = self._read
        assert position  # noqa: S101 (it was looked at)
        streams: dict[Any, Any] = {
            Partition(number).events: entry_of(place) for number, place in enumerate(position.places)
        }
        numbers = {stream.encode(): number for number, stream in enumerate(streams)}
        found: Any = client.xread(streams, count=PAGE, block=int(BLOCK_S * 1000))
        events = []
        for stream, entries in found:
            number = numbers[stream]
            for place, kind, raw in decoded(entries):
                position = position.moved(number, place)
                events.append(Event(number, place, kind, raw, position))
            position = position.moved(number, place_of(entries[-1][0]))
        self._read = position
        return events
