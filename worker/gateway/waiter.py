"""A caller who waits for steps, from its question to its answer."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from worker.store.claims import Holder, SpecEntry


class State(Enum):
    """Where a waiting caller is."""

    WAITS = 1
    IS_SERVED = 2  # steps are being claimed for it
    LEFT = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller asks for: `most` steps of `streams` at the most; `record` is where its claim's id is kept."""

    holder: Holder
    streams: tuple[str, ...]
    most: int = 1
    record: str | None = None
    waits: bool = True  # else it goes with what there is at once
    lasts: Callable[[], bool] = lambda: True  # whether its key still holds


@dataclass(eq=False)
class Waiter:
    """A caller who waits; `given` becomes the steps, and ends with the RedisError that kept them from it."""

    wanted: Wanted
    given: asyncio.Future[list[SpecEntry]]
    state: State = State.WAITS
    leaves: bool = False  # as soon as it is served
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    since: float = field(default_factory=time.monotonic)
    got: list[SpecEntry] = field(default_factory=list)

    @property
    def holder(self) -> Holder:
        """Who claims for this answer: the same controller may ask again elsewhere, and is then answered there."""
        return self.wanted.holder._replace(claim=self.token)

    def give(self, steps: list[SpecEntry]) -> None:
        """Let the caller go, with these steps."""
        self._settle(lambda: self.given.set_result(steps))

    def fail(self, error: Exception) -> None:
        """Let the caller go without an answer."""
        self._settle(lambda: self.given.set_exception(error))

    def _settle(self, settle: Callable[[], None]) -> None:
        self.given.get_loop().call_soon_threadsafe(lambda: None if self.given.done() else settle())

    def has_room(self) -> bool:
        """Whether the caller waits for more steps than it has got."""
        return self.state is State.WAITS and len(self.got) < self.wanted.most

    def drop(self) -> list[SpecEntry]:
        """Take away the steps that the caller has got, and return them."""
        got, self.got = self.got, []
        return got
