"""A read that waits at the server for news, on a connection of its own, while its thread looks at other things."""

from __future__ import annotations

import time
from typing import Any, Self

from redis import Redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as TookTooLong

from worker.store.clients import BLOCK_MARGIN_S


class BlockingRead:
    """At most one read at a time; `streams` are those of the one that is under way."""

    def __init__(self, client: Redis, block_ms: int) -> None:
        self._pool = client.connection_pool
        self._block_ms = block_ms
        self._sent_at = 0.0
        self.streams: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        self._connection = self._pool.get_connection()
        return self

    def __exit__(self, *_: object) -> None:
        if self.streams:
            self._connection.disconnect()  # what is still on its way must not answer a later call
        self._pool.release(self._connection)

    def send(self, read: tuple[Any, ...], places: dict[str, Any]) -> None:
        """Send `read`, such as XREAD with its options, for these streams from these places on."""
        self._connection.send_command(*read, "BLOCK", self._block_ms, "STREAMS", *places, *places.values())
        self._sent_at = time.monotonic()
        self.streams = frozenset(places)

    def is_ready(self, wait_s: float) -> bool:
        """Wait for the reply, at most so long; raises what the connection raises, and TimeoutError if it is overdue."""
        if self._connection.can_read(wait_s):
            return True
        if time.monotonic() - self._sent_at > self._block_ms / 1000 + BLOCK_MARGIN_S:
            raise TookTooLong("The server does not answer a read that waits for news.")
        return False

    def receive(self) -> list[Any]:
        """Take the reply: each stream with its entries; raises what the server refuses."""
        try:
            found = self._connection.read_response()
        except ResponseError:
            self.streams = frozenset()
            raise
        self.streams = frozenset()
        return found or []
