"""What every drafter has in common: one question, one answer, and an error that may be shown to people and models."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from tasks.errors import PlannerError
from tasks.planning.draft import Consult, Drafted
from tasks.planning.text import one_line
from tasks.policy.sanitize import sanitize
from worker.drafters.redaction import redact

MAX_ERROR = 500
MAX_ANSWER = 1024 * 1024  # characters or bytes: more than any plan needs
READ_FOR_ERROR = 4096  # what an error is made of
CHARACTERS_A_TOKEN = 4  # where nobody counted
STOPPED = "stopped"  # the error of a call that was given up because nobody wants its answer any more

Stop = Callable[[], bool]


class WrongDrafter(PlannerError):
    """A drafter that is enabled cannot be used."""


class Drafter(Protocol):
    """Whom a worker asks for a draft."""

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        """Answer `question`; gives up soon after `stop` says so. What goes wrong outside stands in the answer."""
        ...


class Watch:
    """Measures one call."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def passed_s(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self._started

    def answered(self, output: str, tokens: int) -> Drafted:
        """Make the answer of a call that succeeded."""
        return Drafted(output, None, tokens, int(self.passed_s * 1000))

    def failed(self, why: str, tokens: int, secrets: tuple[str, ...] = ()) -> Drafted:
        """Make the answer of a call that failed: `why` is outside words, made harmless and short."""
        error = one_line(redact(sanitize(redact(why[:READ_FOR_ERROR], secrets)).text), MAX_ERROR)
        return Drafted(None, error or "failed without a word", tokens, int(self.passed_s * 1000))


def estimate(*texts: str) -> int:
    """Guess the tokens of `texts`, so that a call that nobody counted is not for free."""
    return -(-sum(map(len, texts)) // CHARACTERS_A_TOKEN)
