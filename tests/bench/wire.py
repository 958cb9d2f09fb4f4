"""Commands that are packed by whoever sends them, and their replies: the least that a client can cost."""

from __future__ import annotations

from typing import Any, Self

from hiredis import Reader, pack_command
from redis import Redis

READ_BYTES = 1 << 18
PATIENCE_S = 60.0  # with a reply: longer than any command of the benchmark blocks


def pack(*command: Any) -> bytes:
    """Write a command as the protocol has it."""
    packed: bytes = pack_command(command)
    return packed


class Wire:
    """A connection of a client, without what redis-py does for each command and each reply.

    An error reply is returned like any other.
    """

    def __init__(self, client: Redis) -> None:
        self._pool = client.connection_pool
        self._reader = Reader()

    def __enter__(self) -> Self:
        self._connection = self._pool.get_connection()
        socket: Any = self._connection._sock  # noqa: SLF001 (redis-py made, greeted and maybe encrypted it)
        socket.settimeout(PATIENCE_S)
        self._socket = socket
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.disconnect()  # redis-py does not know what was read from it
        self._pool.release(self._connection)

    def ask(self, commands: bytes, replies: int) -> list[Any]:
        """Send packed commands and read so many replies."""
        self._socket.sendall(commands)
        return self.receive(replies)

    def receive(self, count: int) -> list[Any]:
        """Read the next `count` replies."""
        replies: list[Any] = []
        while len(replies) < count:
            reply = self._reader.gets()
            if reply is not False:
                replies.append(reply)
                continue
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionError("the server has closed the connection")
            self._reader.feed(data)
        return replies
