"""The function libraries: loaded at start, and again where a server has lost them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, Self

from hiredis import pack_command
from redis import Redis
from redis.exceptions import ResponseError

from tasks.errors import PlannerError

BEGIN = "planner_begin_1"
COMMIT = "planner_commit_1"
UPKEEP = "planner_upkeep_1"
LIBRARIES = ("planner.lua", "heartbeat.lua")
MISSING = "Function not found"


class FunctionsMissing(PlannerError):
    """The server does not have the planner's functions; load them and begin anew."""


@cache
def _source(name: str) -> str:
    return resources.files("worker.store").joinpath(name).read_text()


def load(client: Redis) -> None:
    """Load the libraries of this version; the same text again changes nothing."""
    for name in LIBRARIES:
        client.function_load(_source(name), replace=True)


class Talk:
    """One connection on which commands are sent and replies read in the same order, each when it suits.

    A pipeline without its costs per command and without retries; while the server works on what was sent, the
    sender can go on. An error reply is returned like any other.
    """

    def __init__(self, client: Redis) -> None:
        self._pool = client.connection_pool
        self._owed = 0

    def __enter__(self) -> Self:
        self._connection = self._pool.get_connection()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind or self._owed:
            self._connection.disconnect()  # what is still on its way must not answer a later call
        self._pool.release(self._connection)

    def send(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Send commands; their replies are owed."""
        if commands:
            self._owed += len(commands)
            self._connection.send_packed_command([b"".join([pack_command(command) for command in commands])])

    def receive(self, count: int) -> list[Any]:
        """Read the next `count` replies; raises FunctionsMissing where the server has lost the library."""
        replies = [self._reply() for _ in range(count)]
        self._owed -= count
        return replies

    def _reply(self) -> Any:
        try:
            return self._connection.read_response()
        except ResponseError as error:
            if MISSING in str(error):
                raise FunctionsMissing from error
            return error


def call(client: Redis, *command: Any) -> Any:
    """Call one function and return its reply; raises what the server refuses."""
    with Talk(client) as talk:
        talk.send([command])
        (reply,) = talk.receive(1)
    if isinstance(reply, Exception):
        raise reply
    return reply
