"""A read that waits at the server for new entries, on a separate connection, while its thread does other work."""

from __future__ import annotations

import time
from typing import Any, Self

from redis import Redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as TookTooLong

from worker.store.clients import BLOCK_MARGIN_S


class BlockingRead:
    """Sends one read at a time; `streams` are the streams of the current read, empty if there is none."""

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
            self._connection.disconnect()  # a late reply must not answer a later call
        self._pool.release(self._connection)

    def send(self, read: tuple[Any, ...], places: dict[str, Any]) -> None:
        """Send the command `read`, such as XREAD; `places` maps each stream to the id after which to read."""
        self._connection.send_command(*read, "BLOCK", self._block_ms, "STREAMS", *places, *places.values())
        self._sent_at = time.monotonic()
        self.streams = frozenset(places)

    def is_ready(self, wait_s: float) -> bool:
        """Wait at most `wait_s` seconds for the reply.

        Raises errors of the connection, and TookTooLong if it is overdue.
        """
        if self._connection.can_read(wait_s):
            return True
        if time.monotonic() - self._sent_at > self._block_ms / 1000 + BLOCK_MARGIN_S:
            raise TookTooLong("The server does not answer a read that waits for news.")
        return False

    def receive(self) -> list[Any]:
        """Return the reply: each stream with its entries. Raises the server's refusal."""
        try:
            found = self._connection.read_response()
        except ResponseError:
            self.streams = frozenset()
            raise
        self.streams = frozenset()
        return found or []
