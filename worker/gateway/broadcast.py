"""Texts that many look at: each is made once for all of them, again and again while something happens.

A subject is all that its text depends on beside the plans, so that who asks for the same subject may see the same text.
No text is handed out to a caller whose key, or session, has ended by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from redis.exceptions import RedisError
from starlette.concurrency import run_in_threadpool

from worker.gateway.access import Access, Context, lasting
from worker.gateway.event_hub import Subscription
from worker.gateway.event_streams import Event, Gap
from worker.gateway.problems import Refusal

log = logging.getLogger("planner.gateway")

SHORTEST_S = 0.5  # from one text of a subject to the next
NEVER = float("inf")
SHARE = 4  # making the texts of all subjects takes at most one part in so many of the time
AT_ONCE = 2  # texts that are made at a time, of all subjects
MOST_OF_A_KEY = 8  # subjects that are looked at with one key
RETRY_S = 30
LOOK_S = 5.0  # between looks whether the callers' keys still hold while nothing happens
COMMENT_S = 15.0  # of silence, after which a comment is sent
COMMENT = b": still here\n\n"


class Subject(Protocol):
    """What is looked at, and by whom: two that are equal have the same text."""

    def __hash__(self) -> int:
        """Equal subjects share a broadcast."""

    def frame(self, doors: Context) -> bytes:
        """Make the text as it is now, as an event of a stream. In a thread."""

    def pace_of(self, what: str) -> float | None:
        """Return how soon after the last text events of this type have it made anew, in s; None where they do not."""

    def is_about(self, event: Event) -> bool:
        """Return whether an event of such a type is about what the text shows."""


class Reader:
    """One who looks at a subject: it gets the newest text, and what it was too slow for is left out."""

    def __init__(self, caller: Access) -> None:
        self.caller = caller
        self.is_new = True  # and was offered nothing yet
        self._last = self._next = b""
        self._is_over = False
        self._came = asyncio.Event()

    def offer(self, frame: bytes) -> None:
        """Have it sent next, unless it is what was sent last."""
        self.is_new = False
        self._next = frame
        if frame != self._last:
            self._came.set()

    def end(self) -> None:
        """Have nothing more sent."""
        self._is_over = True
        self._came.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield texts until the caller's key is over, or the process ends."""
        while not self._is_over:
            try:
                async with asyncio.timeout(COMMENT_S):
                    await self._came.wait()
            except TimeoutError:
                yield COMMENT
                continue
            self._came.clear()
            if not self._is_over:
                self._last = self._next
                yield self._last


class Broadcasts:
    """The subjects that are looked at in this process. All but the making of texts happens in its event loop."""

    def __init__(self, doors: Context) -> None:
        self._doors = doors
        self._running: dict[Subject, _Broadcast] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    def demand_room(self, subject: Subject, caller: Access) -> None:
        """Raise Refusal 429 where as many other subjects are looked at with the caller's key as may be."""
        if not self._has_room(subject, caller):
            detail = f"{MOST_OF_A_KEY} other lists are followed with this key: close one of them, or use another key."
            raise Refusal("too_many_lists", detail, 429, retry_after_s=RETRY_S)

    def _has_room(self, subject: Subject, caller: Access) -> bool:
        others = (running for known, running in self._running.items() if known != subject)
        return sum(each.is_read_with(caller.key.key_id) for each in others) < MOST_OF_A_KEY

    def _count_busy(self) -> int:
        return sum(each.is_busy and bool(each.readers) for each in self._running.values())

    async def frames(self, subject: Subject, caller: Access) -> AsyncIterator[bytes]:
        """Yield the text of a subject, and each newer one, until the caller's key is over, or the process ends.

        Nothing where `demand_room` refuses by now.
        """
        if not self._has_room(subject, caller):
            return
        running = self._running.get(subject)
        if running is None:
            running = self._running[subject] = _Broadcast(self._doors, subject, self._room, self._count_busy)
            running.task = asyncio.create_task(self._run(subject, running))
        reader = running.join(caller)
        try:
            async for frame in reader.frames():
                yield frame
        finally:
            running.readers.discard(reader)

    async def _run(self, subject: Subject, running: _Broadcast) -> None:
        try:
            await running.run()
        except RedisError:
            log.debug("live list interrupted")
        except Exception:
            log.exception("live list failed")
        finally:
            del self._running[subject]
            for reader in running.readers:
                reader.end()


def rest_after(took_s: float, busy: int) -> float:
    """Tell for how long a subject rests whose text took so long, where so many make texts, wait to, or rest.

    Each has the same part of the SHARE of all: who asks for what is costly waits longer for it, and nobody else does.
    """
    return max(SHORTEST_S, (SHARE * busy - 1) * took_s)


class _Broadcast:
    """One subject, and who looks at it; it ends soon after the last of them has left."""

    def __init__(
        self, doors: Context, subject: Subject, room: asyncio.Semaphore, count_busy: Callable[[], int]
    ) -> None:
        self._doors = doors
        self._subject = subject
        self._room = room
        self._count_busy = count_busy
        self._pace = 0.0  # how soon after the last text it is to be made anew
        self._changes: Subscription | None = None
        self.is_busy = False  # makes a text, waits to, or rests
        self.readers: set[Reader] = set()
        self.task: asyncio.Task[None] | None = None  # asyncio itself keeps only weak references

    def join(self, caller: Access) -> Reader:
        """Add a reader; a text is made for it, unless one is being made."""
        reader = Reader(caller)
        self.readers.add(reader)
        if self._changes:
            self._changes.wake()
        return reader

    def is_read_with(self, key_id: str) -> bool:
        """Return whether somebody looks with this key."""
        return any(each.caller.key.key_id == key_id for each in self.readers)

    async def run(self) -> None:
        """Make the text, and again whenever something has happened, until nobody looks or the process ends."""
        clock = asyncio.get_running_loop().time
        frame, made_at = b"", -NEVER
        async with self._doors.hub.subscribe(wants=self._wants) as changes:
            self._changes = changes
            while self.readers and not changes.is_over:
                if self._has_new() or clock() - made_at >= self._pace:
                    self.is_busy = True
                    async with self._room:
                        made_at, self._pace = clock(), NEVER
                        frame = await run_in_threadpool(self._subject.frame, self._doors)
                        took_s = clock() - made_at
                    await self._hand_out(frame)
                    await asyncio.sleep(rest_after(took_s, self._count_busy()))
                    self.is_busy = False
                else:
                    await self._hand_out(frame)
                await self._wait(changes, made_at)

    def _wants(self, event: Event) -> bool:
        """Note how soon an event has the text made anew; until then no other is looked at that could wait as long."""
        pace = self._subject.pace_of(event.what)
        if pace is None or pace >= self._pace or not self._subject.is_about(event):
            return False
        self._pace = pace
        return True

    async def _wait(self, changes: Subscription, made_at: float) -> None:
        """Wait until the text is to be made anew, or until the callers' keys are to be looked at."""
        clock = asyncio.get_running_loop().time
        looks_at = clock() + LOOK_S
        while not self._has_new() and not changes.is_over:
            left_s = min(looks_at, made_at + self._pace) - clock()
            if left_s <= 0:
                return
            if any(isinstance(each, Gap) for each in await changes.batch(left_s)):
                self._pace = SHORTEST_S

    def _has_new(self) -> bool:
        return any(each.is_new for each in self.readers)

    async def _hand_out(self, frame: bytes) -> None:
        readers = set(self.readers)
        callers = await run_in_threadpool(lasting, self._doors.client, {each.caller for each in readers})
        for each in readers:
            if each.caller in callers:
                each.offer(frame)
            else:
                each.end()
