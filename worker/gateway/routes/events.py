"""`GET /v1/events`: sends events to readers as server-sent events; a reader can continue at an earlier position."""

from __future__ import annotations

import asyncio
import operator
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from redis import Redis
from redis.exceptions import RedisError
from starlette.concurrency import run_in_threadpool

from schemas.event import EVENT_PREFIX, EVENT_SUFFIX
from worker.gateway.access import Access, Context, Doors
from worker.gateway.event_hub import Subscription
from worker.gateway.event_position import Place, Position, WrongPosition, decode
from worker.gateway.event_streams import (
    STREAM_HEADERS,
    Event,
    Gap,
    ends_of,
    epoch_of,
    framed,
    partitions_of,
    read_page,
    resume,
)
from worker.gateway.problems import Refusal
from worker.gateway.visible import PlanReader, find_plan
from worker.store.keys import partition_of

router = APIRouter(tags=["events"])

COMMENT_S = 15.0  # of silence, after which a comment is sent
LOOK_S = 5.0  # between checks of the reader's key
PAGE = 500
MOST_WRITES_PER_S = 4000  # to all readers of a process, about
TYPE = re.compile(r"[a-z]{1,20}\.(?:[a-z_]{1,40}|\*)")
RETRY_MS = 2000


@router.get(
    "/v1/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events without end. `id` resumes by `Last-Event-ID`, on any gateway.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def events(
    caller: PlanReader,
    doors: Doors,
    plan: Annotated[str | None, Query(description="A plan's id: only its events, from its first one on.")] = None,
    types: Annotated[
        str | None, Query(description="Only these types, with commas between: `plan.completed,step.*`.")
    ] = None,
    last_event_id: Annotated[str | None, Header(description="Go on behind the event that had this `id`.")] = None,
) -> StreamingResponse:
    """Follow the events of the caller's plans. The event `gap` reports lost events."""
    wants = _filter(caller, plan, types)
    begun = await run_in_threadpool(_beginning, doors, caller, plan) if plan else None
    now = await doors.hub.position()
    if last_event_id:
        try:
            start = decode(last_event_id)
        except WrongPosition:
            raise Refusal(
                "wrong_position", "Last-Event-ID is no `id` of an event that this planner sent.", 400
            ) from None
    else:
        start = now.moved(*begun) if begun else now
    only = [begun[0]] if begun else range(len(now.places))
    stream = _Stream(doors, caller, wants, plan, only, start)
    return StreamingResponse(stream.frames(), media_type="text/event-stream", headers=STREAM_HEADERS)


def _filter(caller: Access, plan: str | None, types: str | None) -> Callable[[Event], bool]:
    """Return the filter for events that a caller may see and has asked for."""
    names = {name.removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX) for name in (types or "").split(",") if name}
    if wrong := sorted(name for name in names if not TYPE.fullmatch(name)):
        raise Refusal("wrong_type", f"{wrong[0][:60]} is no type of events; plan.completed and step.* are.", 422)

    def wants(event: Event) -> bool:
        what = event.what
        if names and what not in names and f"{what.partition('.')[0]}.*" not in names:
            return False
        data = event.data
        if plan and data.get("plan_id") != plan:
            return False
        return caller.may_see(data.get("tenant") or "", data.get("repo"))

    return wants


def _beginning(doors: Context, caller: Access, plan: str) -> tuple[int, Place]:
    """Return the partition of a plan, and the place before its first event.

    Raises Refusal 404 if the caller may not see it.
    """
    created = datetime.fromisoformat(find_plan(doors, caller, plan).created_at)
    return partition_of(plan, doors.partitions), (int(created.timestamp() * 1000) - 1, 0)


class _Stream:
    """The events of one reader: stored ones first, then live ones; `position` is after the last sent event."""

    def __init__(
        self,
        doors: Context,
        caller: Access,
        wants: Callable[[Event], bool],
        plan: str | None,
        partitions: Sequence[int],
        start: Position,
    ) -> None:
        self._doors = doors
        self._caller = caller
        self._wants = wants
        self._plan = plan
        self._partitions = partitions
        self._position = start
        self._is_level = False  # the position is in no partition ahead of this process, as after another gateway

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield pieces of the stream until its reader's key ends, or the process does."""
        yield b"retry: %d\n" % RETRY_MS + self._comment(b"events")
        with suppress(RedisError):  # the reader comes again, and goes on
            if gap := await self._doors.shares.read(self._resume, self._doors.client):
                yield gap.frame
            async for piece in self._history(None):  # without a buffer for events that come meanwhile
                yield piece
            async with self._doors.hub.subscribe(plans=[self._plan] if self._plan else (), wants=self._wants) as live:
                is_other = (
                    live.start.epoch != self._position.epoch
                )  # the data set changed after `_resume`: only other readers received the gap
                if is_other and (gap := await self._doors.shares.read(self._resume, self._doors.client)):
                    yield gap.frame
                async for piece in self._history(live.start):
                    yield piece
                async for piece in self._live(live):
                    yield piece

    def _resume(self, client: Redis) -> Gap | None:
        """Set the position to go on from. Returns the gap if events before it are missing."""
        count = partitions_of(client, self._doors.partitions)
        epoch, ends = epoch_of(client, count), ends_of(client, count)
        if len(self._position.places) == count:  # events that were removed from other partitions are no gap
            for number in set(range(count)).difference(self._partitions):
                self._position = self._position.moved(number, ends[number].last)
        self._position, reason = resume(self._position, epoch, ends)
        return Gap(reason, self._position) if reason else None

    async def _history(self, until: Position | None) -> AsyncIterator[bytes]:
        """Yield the stored events after the position, up to `until`."""
        for number in self._partitions:
            limit, is_full = until.places[number] if until else None, True
            while is_full and not (limit and limit <= self._position.places[number]):
                after = self._position.places[number]
                page = await self._doors.shares.read(read_page, self._doors.client, number, after, limit, PAGE)
                frames = [Gap("cut", self._position).frame] if page.ends.lacks(after) else []
                for place, kind, raw in page.events:
                    self._position = self._position.moved(number, place)
                    event = Event(number, place, kind, raw, self._position)
                    if self._wants(event):
                        frames.append(event.frame)
                is_full = page.is_full
                if frames:
                    yield b"".join(frames)
            if limit:
                self._position = self._position.moved(number, max(limit, self._position.places[number]))

    async def _live(self, live: Subscription) -> AsyncIterator[bytes]:
        """Yield live events, and a comment after a silence."""
        clock = asyncio.get_running_loop().time
        sent = looked = clock()
        while not live.is_over:
            items, behind = await live.batch(LOOK_S), live.position
            if clock() - looked >= LOOK_S:
                if not await self._lasts():
                    return
                looked = clock()
            if self._is_level:
                frames = [item.frame for item in items]
            else:
                frames = [frame for item in items if (frame := self._frame(item))]
                self._is_level = all(map(operator.le, self._position.places, behind.places))
            if self._is_level:
                self._position = behind
            if frames:
                yield b"".join(frames)
                sent = clock()
                # What comes soon goes with one write, the later the more readers there are.
                await asyncio.sleep(self._doors.hub.subscriptions / MOST_WRITES_PER_S)
            elif clock() - sent >= COMMENT_S:
                yield self._comment(b"still here")
                sent = clock()

    def _frame(self, item: Event | Gap) -> bytes | None:
        """Return an event or a gap as text; None for an event that the reader already has from another gateway."""
        if isinstance(item, Gap):
            self._position = item.position
            return item.frame
        if item.place <= self._position.places[item.partition]:
            return None
        self._position = self._position.moved(item.partition, item.place)
        return framed(item, self._position)

    def _comment(self, text: bytes) -> bytes:
        """Return a comment with the position, so that a reader of few events keeps its position up to date."""
        return b": %b\nid: %b\n\n" % (text, self._position.encode().encode())

    async def _lasts(self) -> bool:
        with suppress(RedisError):  # an error of Redis does not end the key
            return await self._doors.shares.read(self._caller.lasts)
        return True
