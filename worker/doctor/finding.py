"""The finding of a check, the checked site, and the repair of a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import OutOfMemoryError, WatchError

TRIES = 20  # a worker that looks at the plan meanwhile disturbs a repair, though it need not change anything
LOOKS = 20  # repetitions for answers that keep changing

RedisCommand = tuple[Any, ...]


def many(count: int, noun: str) -> str:
    """Return a count with its noun, such as `2 attempts`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class FindingSeverity(StrEnum):
    """How bad a finding is. ERROR: a promise of the planner is broken. WARNING: a promise may be broken soon."""

    ERROR = "error"
    WARNING = "warning"


class Repair(NamedTuple):
    """Redis commands that repair a finding; either all of them run, or none.

    They run only while the plan's hash `fence` has this `version`. If `version` is None, they run only while there is
    no such plan. If `fence` is empty, they run in any case.
    """

    commands: tuple[RedisCommand, ...]
    fence: str = ""
    version: int | None = None


@dataclass(slots=True)
class Finding:
    """A problem: its check, its subject, a sentence, and the remedy. `subject` is a plan, a stream or a key."""

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
        """The values that identify the finding in a second check."""
        return self.check, self.subject, self.recognised_by or self.sentence

    def document(self) -> dict[str, Any]:
        """Return the finding as JSON."""
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
    """The server to check, and the settings that the checks need."""

    client: Redis
    partitions: int
    retention_s: int
    claim_idle_ms: int


def ask_together(client: Redis, commands: Sequence[RedisCommand], *, raise_on_error: bool = True) -> list[Any]:
    """Return the answers to the reading `commands`, all from one moment.

    If a full server refuses a transaction, the commands are repeated until two rounds have equal answers. If no two
    rounds agree, the last answers are returned.
    """
    try:
        return _ask(client, commands, raise_on_error, transaction=True)
    except OutOfMemoryError:
        pass
    answers = _ask(client, commands, raise_on_error)
    for _ in range(LOOKS):
        before, answers = answers, _ask(client, commands, raise_on_error)
        if list(map(repr, answers)) == list(map(repr, before)):  # equal errors are different objects
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
    """Apply a repair.

    Returns False if the plan has changed, so that it has to be checked again, or if the server is full.

    The plan's version stays. Decisions in progress remain correct, because a repair only restores their assumptions.
    """
    for _ in range(TRIES):
        try:
            return _try(client, repair)
        except OutOfMemoryError:  # deletes and expiries pass, except on Redis 7.0; additions wait for memory
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
