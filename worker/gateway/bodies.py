"""Limits on request bodies: the size, the time, and the total size of all bodies that are read at once."""

from __future__ import annotations

import asyncio
import re
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Any

from starlette.types import Message, Receive

from schemas.outcome import MAX_OUTCOME_BYTES
from worker.gateway.problems import Refusal
from worker.settings.settings import Settings
from worker.webhooks.sources_file import SourcesFile

MB = 1024 * 1024
MAX_BYTES = MB  # of a body by default
MOST_OUTCOMES = 100  # in one request
MAX_FORM_BYTES = 4 * MB  # of the page's form of a goal, whose report may be pasted or uploaded
AROUND_BYTES = 64 * 1024  # more than a goal or outcomes, for the JSON that contains them
WEBHOOKS = "/v1/webhooks/"
GOAL_FORM = "/goals/new"

GRACE_S = 20.0  # a body of any size has this time ...
LEAST_RATE = 32 * 1024  # ... and more time for each second's worth of bytes that came
MOST_HELD_BYTES = 256 * MB  # of all bodies in this process, about
MOST_UNFINISHED = 1000  # bodies that are on their way

MAX_DEPTH = 100
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # into a list or an object, and out of it again


class Gone(Exception):
    """The caller has closed the connection, or does not read its answer."""


def limit_of(path: str, settings: Settings, sources: SourcesFile | None = None) -> int:
    """Return the maximum size of a body for `path`, in bytes."""
    if path == "/v1/goals":
        return settings.max_goal_bytes
    if path == GOAL_FORM:
        return MAX_FORM_BYTES
    if path == "/mcp":
        return settings.max_goal_bytes + AROUND_BYTES
    if path == "/v1/outcomes":
        return MOST_OUTCOMES * MAX_OUTCOME_BYTES + AROUND_BYTES
    source = sources.named(path.removeprefix(WEBHOOKS)) if sources and path.startswith(WEBHOOKS) else None
    return source.most_bytes if source else MAX_BYTES


def too_large(limit: int) -> Refusal:
    """Return the refusal (413) of a body with more than `limit` bytes."""
    return Refusal("too_large", f"The body has more than {limit} bytes, which is the limit here.", 413)


def nests_deeply(body: bytes) -> bool:
    """Return whether lists and objects in JSON nest deeper than MAX_DEPTH.

    A deeper body exhausts the stack of its readers.
    """
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return False
    steps = array("b", STRING.sub(b"", body).translate(STEPS, NO_BRACKETS))
    return max(accumulate(steps), default=0) > MAX_DEPTH


class Bodies:
    """The bodies that this process reads and keeps in memory."""

    def __init__(self) -> None:
        self._held = 0
        self._unfinished: dict[asyncio.Timeout, None] = {}  # the oldest first

    @asynccontextmanager
    async def read(self, receive: Receive, limit: int) -> AsyncIterator[bytes]:
        """Read a whole body, which counts against the limit of memory until the block ends.

        Raises Refusal if the body is larger than `limit` (413), arrives too slowly (408) or finds no capacity (503).
        Raises Gone if the caller has left. If capacity is needed, the body that has been on its way for longest is
        refused.
        """
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(GRACE_S) as deadline:
                    self._unfinished[deadline] = None
                    try:
                        await self._fill(body, receive, limit, deadline)
                    finally:
                        self._unfinished.pop(deadline, None)
            except TimeoutError:
                raise Refusal(
                    "too_slow", "The body did not come in time: send it faster, or less of it.", 408
                ) from None
            yield bytes(body)
        finally:
            self._held -= len(body)

    async def _fill(self, body: bytearray, receive: Receive, limit: int, deadline: asyncio.Timeout) -> None:
        clock = asyncio.get_running_loop().time
        began, more = clock(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            piece = message.get("body", b"")
            body += piece
            self._held += len(piece)
            if len(body) > limit:
                raise too_large(limit)
            more = message.get("more_body", False)
            self._make_room(deadline)
            if more and deadline in self._unfinished:
                deadline.reschedule(began + GRACE_S + len(body) / LEAST_RATE)

    def _make_room(self, own: asyncio.Timeout) -> None:
        """Stop reading the oldest body if there are too many bodies, or their total size is too large."""
        if self._held <= MOST_HELD_BYTES and len(self._unfinished) <= MOST_UNFINISHED:
            return
        oldest = next(iter(self._unfinished), own)
        if oldest is own:
            raise Refusal("busy", "The gateway holds as much as it may: try again soon.", 503, retry_after_s=1)
        del self._unfinished[oldest]
        oldest.reschedule(asyncio.get_running_loop().time())


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields a body that was read already, and then the messages of the given `receive`."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return left.pop() if left else await receive()

    return again
