"""Live texts for many readers: each text is made once for all of its readers, and again when it changes.

A subject contains all that its text depends on, except the plans. So all readers of an equal subject may see the same
text. Before a text is sent, the key and the session of each reader are checked again.
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

SHORTEST_S = 0.5  # minimum time from one text of a subject to the next
NEVER = float("inf")
SHARE = 4  # making the texts of all subjects takes at most one part in so many of the time
AT_ONCE = 2  # texts that are made at a time, of all subjects
MOST_OF_A_KEY = 8  # subjects that readers with one key may follow
RETRY_S = 30
LOOK_S = 5.0  # between checks of the callers' keys while nothing happens
COMMENT_S = 15.0  # of silence, after which a comment is sent
COMMENT = b": still here\n\n"


class Subject(Protocol):
    """The description of a live text. Two equal subjects have the same text, for the same readers."""

    def __hash__(self) -> int:
        """Equal subjects share a broadcast."""

    def frame(self, doors: Context) -> bytes:
        """Return the current text as a server-sent event. It is called in a thread."""

    def pace_of(self, what: str) -> float | None:
        """Return the least time in s between the last text and a new one after event type `what`; None if unchanged."""

    def is_about(self, event: Event) -> bool:
        """Return whether an event of such a type concerns a plan in the text."""


class Reader:
    """A reader of a subject. It receives the newest text, and skips older ones if it is slow."""

    def __init__(self, caller: Access) -> None:
        self.caller = caller
        self.is_new = True  # it was offered nothing yet
        self._last = self._next = b""
        self._is_over = False
        self._came = asyncio.Event()

    def offer(self, frame: bytes) -> None:
        """Send this text next, unless it equals the text that was sent last."""
        self.is_new = False
        self._next = frame
        if frame != self._last:
            self._came.set()

    def end(self) -> None:
        """End the stream of this reader."""
        self._is_over = True
        self._came.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield each new text, and a comment after a silence, until the caller's key or the process ends."""
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
    """The subjects that have readers in this process. Everything but the making of texts runs in its event loop."""

    def __init__(self, doors: Context) -> None:
        self._doors = doors
        self._running: dict[Subject, _Broadcast] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    def demand_room(self, subject: Subject, caller: Access) -> None:
        """Raise Refusal 429 if readers with the caller's key already follow as many other subjects as one key may."""
        if not self._has_room(subject, caller):
            detail = f"{MOST_OF_A_KEY} other lists are followed with this key: close one of them, or use another key."
            raise Refusal("too_many_lists", detail, 429, retry_after_s=RETRY_S)

    def _has_room(self, subject: Subject, caller: Access) -> bool:
        others = (running for known, running in self._running.items() if known != subject)
        return sum(each.is_read_with(caller.key.key_id) for each in others) < MOST_OF_A_KEY

    def _count_busy(self) -> int:
        return sum(each.is_busy and bool(each.readers) for each in self._running.values())

    async def frames(self, subject: Subject, caller: Access) -> AsyncIterator[bytes]:
        """Yield the text of a subject, and each newer one, until the caller's key or the process ends.

        Yields nothing if the caller's key follows too many other subjects, as `demand_room` checks.
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
    """Return how long a subject rests, in s, after its text took `took_s` to make.

    All subjects together make texts for at most one part in SHARE of the time. The `busy` subjects, which make texts,
    wait for a turn or rest, have equal parts of that. So a costly subject delays only its own readers.
    """
    return max(SHORTEST_S, (SHARE * busy - 1) * took_s)


class _Broadcast:
    """One subject and its readers. It ends soon after the last reader has left."""

    def __init__(
        self, doors: Context, subject: Subject, room: asyncio.Semaphore, count_busy: Callable[[], int]
    ) -> None:
        self._doors = doors
        self._subject = subject
        self._room = room
        self._count_busy = count_busy
        self._pace = 0.0  # minimum time from the last text to the next, in s
        self._changes: Subscription | None = None
        self.is_busy = False  # makes a text, waits to, or rests
        self.readers: set[Reader] = set()
        self.task: asyncio.Task[None] | None = None  # asyncio itself keeps only weak references

    def join(self, caller: Access) -> Reader:
        """Add a reader. If no text is being made, one is made for it."""
        reader = Reader(caller)
        self.readers.add(reader)
        if self._changes:
            self._changes.wake()
        return reader

    def is_read_with(self, key_id: str) -> bool:
        """Return whether a reader of the subject uses this key."""
        return any(each.caller.key.key_id == key_id for each in self.readers)

    async def run(self) -> None:
        """Make the text, and make it again after each relevant event, until no reader is left or the process ends."""
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
        """Return whether an event requires a new text sooner than planned; if so, plan for that time."""
        pace = self._subject.pace_of(event.what)
        if pace is None or pace >= self._pace or not self._subject.is_about(event):
            return False
        self._pace = pace
        return True

    async def _wait(self, changes: Subscription, made_at: float) -> None:
        """Wait until a new text is due, or until the keys of the readers have to be checked."""
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
