"""Looks up the callers of all waiting requests together, so that a flood of requests does not delay the others.

A caller whose key this process knows is not looked up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from redis.exceptions import RedisError

from worker.gateway.problems import RETRY_S, Refusal, refusal_of

Asked = TypeVar("Asked")
Caller = TypeVar("Caller")

MOST = 500  # that are looked up together
PATIENCE_S = 5.0  # of a request


class KeyChecks(Generic[Asked, Caller]):
    """Finds the callers of requests.

    `at_hand` returns a known caller without waiting, else None. `look_up` finds all other callers together, in a
    separate thread.
    """

    def __init__(
        self,
        look_up: Callable[[list[Asked]], list[Caller | Refusal]],
        at_hand: Callable[[Asked], Caller | None] = lambda _: None,
    ) -> None:
        self._look_up = look_up
        self._at_hand = at_hand
        self._waiting: list[tuple[Asked, asyncio.Future[Caller | Refusal]]] = []
        self._looks: asyncio.Task[None] | None = None
        self._thread = CapacityLimiter(1)  # in addition to the threads that endpoints share

    async def find(self, asked: Asked) -> Caller:
        """Return the caller: a known one at once, else as Redis knows the key after this call.

        Raises Refusal 401 for a wrong key, 429 above the key's rate, and 503 if the answer takes too long.
        """
        if (known := self._at_hand(asked)) is not None:
            return known
        found: asyncio.Future[Caller | Refusal] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, found))
        if self._looks is None:
            self._looks = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await found
        except TimeoutError:
            detail = "Too many keys are being checked: try again soon."
            raise Refusal("busy", detail, 503, retry_after_s=RETRY_S) from None
        if isinstance(answer, Refusal):
            raise answer
        return answer

    async def _look(self) -> None:
        """Look up callers until no request waits."""
        try:
            while self._waiting:
                waiting = [each for each in self._waiting if not each[1].done()]  # else it has gone, or waited too long
                batch, self._waiting = waiting[:MOST], waiting[MOST:]
                if batch:
                    await self._answer(batch)
        finally:
            self._looks = None

    async def _answer(self, batch: list[tuple[Asked, asyncio.Future[Caller | Refusal]]]) -> None:
        try:
            answers = await to_thread.run_sync(self._look_up, [asked for asked, _ in batch], limiter=self._thread)
        except RedisError as error:
            answers = [refusal_of(error) for _ in batch]
        except Exception as error:  # it is the failure of each request, and the next ones are looked up
            for _, found in batch:
                if not found.done():
                    found.set_exception(error)
            return
        for (_, found), answer in zip(batch, answers, strict=True):
            if not found.done():
                found.set_result(answer)
