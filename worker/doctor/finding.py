"""What a check finds, and the site that it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from redis import Redis

Command = tuple[Any, ...]


def many(count: int, noun: str) -> str:
    """Write a count with its noun, such as `2 attempts`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class Severity(StrEnum):
    """ERROR: something promised does not hold. WARNING: it holds, and may not for long."""

    ERROR = "error"
    WARNING = "warning"


class Repair(NamedTuple):
    """Commands that mend a finding, all or none; only while the plan's hash `fence` stands at `version`.

    A `version` of None: while there is no such plan. An empty `fence`: whatever else happens.
    """

    commands: tuple[Command, ...]
    fence: str = ""
    version: int | None = None


@dataclass(slots=True)
class Finding:
    """One thing wrong: the check's id, of what (a plan, a stream, a key), a sentence, and what to do."""

    check: str
    subject: str
    sentence: str
    do: str
    severity: Severity = Severity.ERROR
    repair: Repair | None = None
    fixed: bool = False

    @property
    def identity(self) -> tuple[str, str, str]:
        """By which it is recognised when it is looked for again."""
        return self.check, self.subject, self.sentence

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

    def now(self) -> int:
        """Ask the server for the time, ms."""
        seconds, microseconds = self.client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000
