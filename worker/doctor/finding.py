"""What a check finds, the site that it looks at, and how a finding is mended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import OutOfMemoryError, WatchError

TRIES = 20  # a worker that looks at the plan meanwhile disturbs a repair, though it need not change anything
LOOKS = 20  # at answers that change from one look to the next

RedisCommand = tuple[Any, ...]


def many(count: int, noun: str) -> str:
    """Write a count with its noun, such as `2 attempts`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class FindingSeverity(StrEnum):
    """ERROR: something promised does not hold. WARNING: it holds, and may not for long."""

    ERROR = "error"
    WARNING = "warning"


class Repair(NamedTuple):
    """Commands that mend a finding, all or none.

    They are run only while the plan's hash `fence` stands at `version`.

    A `version` of None: while there is no such plan. An empty `fence`: whatever else happens.
    """

    commands: tuple[RedisCommand, ...]
    fence: str = ""
    version: int | None = None


@dataclass(slots=True)
class Finding:
    """One thing wrong: which check, of what, a sentence, what to do.

    `subject` is a plan, a stream or a key.
    """

    check: str
    subject: str
    sentence: str
    do: str
    severity: FindingSeverity = FindingSeverity.ERROR
    repair: Repair | None = None
    fixed: bool = False
    recognised_by: str = ""  # instead of a sentence that is another one a second later

    @property
    def identity(self) -> tuple[str, str, str]:
        """By which it is recognised when it is looked for again."""
        return self.check, self.subject, self.recognised_by or self.sentence

    def document(self) -> dict[str, Any]:
        """Lay it out as JSON."""
        return {
            "check": self.check,
            "severity": self.severity.value,
            "subject": self.subject,
            "sentence": self.sentence,
            "do": self.do,
            "fixable": self.repair is not None,
            "fixed": self.fixed,
        }


@dataclass(frozen=True, slots=True)
class Site:
    """The server that is looked at, with the settings that matter to it."""

    client: Redis
    partitions: int
    retention_s: int
    claim_idle_ms: int


def ask_together(client: Redis, commands: Sequence[RedisCommand], *, raise_on_error: bool = True) -> list[Any]:
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


def _ask(
    client: Redis, commands: Sequence[RedisCommand], raise_on_error: bool, *, transaction: bool = False
) -> list[Any]:
    pipeline = client.pipeline(transaction=transaction)
    for command in commands:
        pipeline.execute_command(*command)
    return list(pipeline.execute(raise_on_error=raise_on_error))


def mend(client: Redis, repair: Repair) -> bool:
    """Apply a repair; returns whether that was done.

    False: the plan has changed, so look again; or the server is full.

    Nothing of the plan's version moves: decisions that are under way stay right, for a repair only gives back what
    they take as given.
    """
    for _ in range(TRIES):
        try:
            return _try(client, repair)
        except OutOfMemoryError:  # deletes and expiries pass, but on Redis 7.0; what adds has to wait for room
            return False
        except WatchError:
            continue
    return False


def _try(client: Redis, repair: Repair) -> bool:
    with client.pipeline(transaction=True) as pipeline:
        if repair.fence:
            pipeline.watch(repair.fence)
            found: Any = pipeline.hget(repair.fence, "version")
            if (None if found is None else int(found)) != repair.version:
                return False
            pipeline.multi()
        for command in repair.commands:
            pipeline.execute_command(*command)
        pipeline.execute()
    return True
