"""Limits on the requests that a key and a tenant may have in progress, so that no caller locks out another.

Each kind of request has a limit for a key, for a tenant, and for all callers together. No tenant alone can reach the
limit for all. Limits by address are the task of a proxy.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, to_thread

from schemas.api_key import ApiKey
from worker.gateway.problems import RETRY_S, Refusal

T = TypeVar("T")

THREADS = 80  # of a process, for all endpoints: more than REQUESTS, CONTROLLERS and KEYLESS have together
STREAMS = 8  # further threads, for streams of events
CLAIM = "/v1/steps:claim"
OF_CONTROLLERS = (CLAIM, "/v1/steps:heartbeat", "/v1/outcomes", "/v1/attachments")
STREAMED = ("/v1/events", "/live")


class Bounds(NamedTuple):
    """The most requests in progress for a key, for a tenant, and for all callers.

    Above a limit, `most_wait` more requests of a tenant may wait `patience_s` seconds for a turn.
    """

    of_key: int
    of_tenant: int
    of_all: int
    patience_s: float = 0.0
    most_wait: int = 0


class Kind(Enum):
    """The kind of request, by the resource that it occupies: a thread or a connection."""

    REQUESTS = Bounds(8, 12, 24, patience_s=5.0, most_wait=200)  # a thread
    CONTROLLERS = Bounds(16, 16, 32, patience_s=15.0, most_wait=512)  # a thread, for reports of controllers
    STREAMS = Bounds(128, 256, 1024)  # a connection, as long as its caller likes; or a request that waits
    CLAIMS = Bounds(1024, 1024, 2048)  # a connection, for a minute at the most
    KEYLESS = Bounds(16, 16, 16, patience_s=5.0, most_wait=1000)  # of all who show no key: webhooks, tokens, sign-ins


def kind_of(path: str, query: bytes) -> Kind:
    """Return the kind of a request, by its address."""
    waits = b"wait=" in query
    if path in OF_CONTROLLERS:
        return Kind.CLAIMS if waits or path == CLAIM else Kind.CONTROLLERS
    return Kind.STREAMS if waits or path in STREAMED else Kind.REQUESTS


class Shares:
    """The requests in progress in this process."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[tuple[Kind, str], asyncio.Semaphore] = WeakValueDictionary()
        self._waiting = Counter[tuple[Kind, str]]()
        self._streams = CapacityLimiter(STREAMS)

    @asynccontextmanager
    async def held(self, kind: Kind, key: ApiKey | None) -> AsyncIterator[None]:
        """Occupy a share of the key and its tenant while the block lasts.

        Raises Refusal 429 at a limit of the key or tenant, and 503 at the limit for all.
        """
        bounds = kind.value
        tenant = f"tenant {key.tenant}" if key and key.tenant else f"key {key.key_id}" if key else ""
        who = (kind, tenant)
        turns = [self._turn(kind, tenant, bounds.of_tenant), self._turn(kind, "all", bounds.of_all)]
        if key:
            turns.insert(0, self._turn(kind, f"only {key.key_id}", bounds.of_key))
        async with AsyncExitStack() as held:
            if any(turn.locked() for turn in turns):
                refusal = _too_many(kind, is_own=any(turn.locked() for turn in turns[:-1]))
                if self._waiting[who] >= bounds.most_wait:
                    raise refusal
                self._waiting[who] += 1
                try:
                    async with asyncio.timeout(bounds.patience_s):
                        await _enter(held, turns)
                except TimeoutError:
                    raise refusal from None
                finally:
                    self._waiting[who] -= 1
                    self._waiting += Counter()  # forgets who waits no more
            else:
                await _enter(held, turns)
            yield

    async def read(self, read: Callable[..., T], *args: Any) -> T:
        """Call `read` in one of the threads for streams, so that streams occupy no other thread."""
        return await to_thread.run_sync(read, *args, limiter=self._streams)

    def _turn(self, kind: Kind, name: str, most: int) -> asyncio.Semaphore:
        found = self._turns.get((kind, name))
        if found is None:
            found = self._turns[kind, name] = asyncio.Semaphore(most)
        return found


async def _enter(held: AsyncExitStack, turns: list[asyncio.Semaphore]) -> None:
    for turn in turns:
        await held.enter_async_context(turn)


def _too_many(kind: Kind, *, is_own: bool) -> Refusal:
    what = kind.name.lower()
    if is_own:
        detail = f"This key, or its tenant, holds as many {what} as it may: let some end first."
        return Refusal("too_many_at_once", detail, 429, retry_after_s=RETRY_S)
    return Refusal("busy", f"The gateway holds as many {what} as it may: try again soon.", 503, retry_after_s=RETRY_S)
