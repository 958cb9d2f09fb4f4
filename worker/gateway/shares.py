"""How much of what callers have in common a key and a tenant may hold at a time: nobody keeps another out.

Of each kind of request there are bounds for a key, for a tenant and for all; no tenant alone reaches the last. Bounds
by address are a proxy's.
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

THREADS = 80  # of a process, for what all doors do: more than REQUESTS, CONTROLLERS and KEYLESS have together
STREAMS = 8  # beside them, for what streams of events read
CLAIM = "/v1/steps:claim"
OF_CONTROLLERS = (CLAIM, "/v1/steps:heartbeat", "/v1/outcomes", "/v1/attachments")
STREAMED = ("/v1/events", "/live")


class Bounds(NamedTuple):
    """How many requests of a kind go on at a time, and how many more of a tenant wait `patience_s` for their turn."""

    of_key: int
    of_tenant: int
    of_all: int
    patience_s: float = 0.0
    most_wait: int = 0


class Kind(Enum):
    """What a request holds while it goes on."""

    REQUESTS = Bounds(8, 12, 24, patience_s=5.0, most_wait=200)  # a thread
    CONTROLLERS = Bounds(16, 16, 32, patience_s=15.0, most_wait=512)  # a thread, for what those of CLAIMS send
    STREAMS = Bounds(128, 256, 1024)  # a connection, as long as its caller likes; so does what waits for an answer
    CLAIMS = Bounds(1024, 1024, 2048)  # a connection, for a minute at the most
    KEYLESS = Bounds(16, 16, 16, patience_s=5.0, most_wait=1000)  # of all who show no key: webhooks, tokens, sign-ins


def kind_of(path: str, query: bytes) -> Kind:
    """Return what a request holds, by its address."""
    waits = b"wait=" in query
    if path in OF_CONTROLLERS:
        return Kind.CLAIMS if waits or path == CLAIM else Kind.CONTROLLERS
    return Kind.STREAMS if waits or path in STREAMED else Kind.REQUESTS


class Shares:
    """What is held in this process."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[tuple[Kind, str], asyncio.Semaphore] = WeakValueDictionary()
        self._waiting = Counter[tuple[Kind, str]]()
        self._streams = CapacityLimiter(STREAMS)

    @asynccontextmanager
    async def held(self, kind: Kind, key: ApiKey | None) -> AsyncIterator[None]:
        """Hold a share while the block lasts, a tenant's key that of its tenant; raises Refusal 429, and 503."""
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
        """Read for a stream in a thread for that, so that many streams take no other."""
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
