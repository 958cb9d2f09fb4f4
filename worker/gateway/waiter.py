"""A caller that waits for steps, from its request to its answer."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from worker.store.claims import Holder, SpecEntry


class State(Enum):
    """The state of a waiting caller."""

    WAITS = 1
    IS_SERVED = 2  # steps are being claimed for it
    LEFT = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """The request of a caller: at most `most` steps of `streams`. `record` is the Redis key of its claim's id."""

    holder: Holder
    streams: tuple[str, ...]
    most: int = 1
    record: str | None = None
    waits: bool = True  # if False, the caller takes the steps that are there at once
    lasts: Callable[[], bool] = lambda: True  # whether its key still holds


@dataclass(eq=False)
class Waiter:
    """A caller that waits; `given` receives the steps, or the RedisError that prevented the answer."""

    wanted: Wanted
    given: asyncio.Future[list[SpecEntry]]
    state: State = State.WAITS
    leaves: bool = False  # as soon as it is served
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    since: float = field(default_factory=time.monotonic)
    got: list[SpecEntry] = field(default_factory=list)

    @property
    def holder(self) -> Holder:
        """The lease holder with this request's token: of a repeated claim, only the last request is answered."""
        return self.wanted.holder._replace(claim=self.token)

    def give(self, steps: list[SpecEntry]) -> None:
        """Answer the caller with these steps."""
        self._settle(lambda: self.given.set_result(steps))

    def fail(self, error: Exception) -> None:
        """Answer the caller with an error."""
        self._settle(lambda: self.given.set_exception(error))

    def _settle(self, settle: Callable[[], None]) -> None:
        self.given.get_loop().call_soon_threadsafe(lambda: None if self.given.done() else settle())

    def has_room(self) -> bool:
        """Return whether the caller wants more steps than it has."""
        return self.state is State.WAITS and len(self.got) < self.wanted.most

    def drop(self) -> list[SpecEntry]:
        """Remove the steps of the caller and return them."""
        got, self.got = self.got, []
        return got
