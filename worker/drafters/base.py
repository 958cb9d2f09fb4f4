"""What drafters have in common: one question, one answer, an error that may be shown."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tasks.base.errors import PlannerError
from tasks.rules.strategy import Consult, Drafted
from tasks.text.fields import several_lines
from tasks.text.secrets import MARK, fit_redacted, mask, redact

if TYPE_CHECKING:
    from worker.settings.settings import Settings

FOLDERS = "planner-draft-"  # begins the names of those that drafters work in
MAX_ERROR = 500
MAX_ANSWER = 1024 * 1024  # characters or bytes: more than any plan needs
READ_FOR_ERROR = 4096  # what an error is made of
MAX_STDERR = 2000  # characters that are kept of what a call that succeeded said there
MAX_WORDS = 64  # of a command that are shown
MAX_WORD = 200
CHARACTERS_A_TOKEN = 4  # where nobody counted
STOPPED = "stopped"  # the error of a call that was given up because nobody wants its answer any more

Stop = Callable[[], bool]

_SECRET_OPTION = re.compile(r"^-+[\w-]*(?:key|token|secret|passw(?:or)?d|authorization)$", re.IGNORECASE)


class WrongDrafter(PlannerError):
    """A drafter that is enabled cannot be used."""


class Drafter(Protocol):
    """Whom a worker asks for a draft."""

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        """Answer `question`; gives up soon after `stop` says so.

        What goes wrong outside stands in the answer.
        """
        ...


class Stopwatch:
    """Measures one call."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def passed_s(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self._started

    def answer(
        self,
        output: str,
        tokens: int,
        secrets: tuple[str, ...] = (),
        command: Iterable[Any] = (),
        stderr: str = "",
    ) -> Drafted:
        """Make the answer of a call that succeeded, without the `secrets` and what is surely one."""
        words, noise = mask_command(command, secrets), mask_stderr(stderr, secrets)
        return Drafted(mask(output, secrets), None, tokens, int(self.passed_s * 1000), words, noise)

    def failure(self, why: str, tokens: int, secrets: tuple[str, ...] = ()) -> Drafted:
        """Make the answer of a call that failed; `why` comes from outside, and is made harmless and short."""
        error = fit_redacted(why[:READ_FOR_ERROR], MAX_ERROR, secrets)
        return Drafted(None, error or "failed without a word", tokens, int(self.passed_s * 1000))


def estimate(*texts: str) -> int:
    """Guess the tokens of `texts`; a call that nobody counted is not for free."""
    return -(-sum(map(len, texts)) // CHARACTERS_A_TOKEN)


def mask_command(command: Iterable[Any], secrets: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Tell a command without the known secrets, and without words after an option that is named like one."""
    words: list[str] = []
    before = ""
    for word in map(str, list(command)[:MAX_WORDS]):
        hidden = _SECRET_OPTION.match(before[:MAX_WORD])
        words.append(MARK if hidden else fit_redacted(word, MAX_WORD, secrets))
        before = word
    return tuple(words)


def mask_stderr(stderr: str, secrets: tuple[str, ...] = ()) -> str:
    """Keep the end of what was said beside the answer, without secrets and instructions."""
    return fit_redacted(redact(stderr, secrets)[-MAX_STDERR:], MAX_STDERR, secrets, several_lines)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Return the values that the operator keeps from everybody else."""
    known = [*(settings.cli_env or {}).values(), *filter(None, [settings.llm_api_key])]
    return tuple(value.get_secret_value() for value in known)


def place_fault(directory: Path | None) -> str | None:
    """Return what is wrong with a working directory; None where nothing is."""
    if directory is None or (directory / ".git").exists():
        return None
    return f"{directory} is not a git repository" if directory.is_dir() else f"{directory} is no directory"
