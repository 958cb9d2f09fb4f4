"""Answers of one moment, also from a server that takes no transaction: Redis 7.0 does not while its memory is full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis
from redis.exceptions import OutOfMemoryError

from worker.doctor.finding import Command

LOOKS = 20  # at answers that change from one look to the next


def together(client: Redis, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[Any]:
    """Ask for all that `commands` read, as it stands at one moment.

    Without a transaction everything is asked for until it is answered the same twice in a row: what the first command
    read stood unchanged while the last one was asked. Where it never is, the last answers have to do.
    """
    try:
        return _ask(client, commands, raise_on_error, transaction=True)
    except OutOfMemoryError:
        pass
    answers = _ask(client, commands, raise_on_error)
    for _ in range(LOOKS):
        before, answers = answers, _ask(client, commands, raise_on_error)
        if list(map(repr, answers)) == list(map(repr, before)):  # errors are not equal, but they say the same
            break
    return answers


def _ask(client: Redis, commands: Sequence[Command], raise_on_error: bool, *, transaction: bool = False) -> list[Any]:
    pipeline = client.pipeline(transaction=transaction)
    for command in commands:
        pipeline.execute_command(*command)
    return list(pipeline.execute(raise_on_error=raise_on_error))
