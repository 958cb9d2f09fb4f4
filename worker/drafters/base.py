"""Common parts of drafters: one question, one answer, and an error that may be shown."""

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
READ_FOR_ERROR = 4096  # characters that are read for an error
MAX_STDERR = 2000  # characters of standard error that are kept of a successful call
MAX_WORDS = 64  # of a command that are shown
MAX_WORD = 200
CHARACTERS_A_TOKEN = 4  # for uncounted tokens
STOPPED = "stopped"  # the error of a call that was given up because its answer is no longer wanted

Stop = Callable[[], bool]

_SECRET_OPTION = re.compile(r"^-+[\w-]*(?:key|token|secret|passw(?:or)?d|authorization)$", re.IGNORECASE)


class WrongDrafter(PlannerError):
    """A drafter that is enabled cannot be used."""


class Drafter(Protocol):
    """Answers questions of a worker for drafts."""

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        """Answer `question`; gives up soon after `stop` returns True. External errors are returned in the answer."""
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
        """Return the answer of a successful call; the `secrets` and texts that look like secrets are masked."""
        words, noise = mask_command(command, secrets), mask_stderr(stderr, secrets)
        return Drafted(mask(output, secrets), None, tokens, int(self.passed_s * 1000), words, noise)

    def failure(self, why: str, tokens: int, secrets: tuple[str, ...] = ()) -> Drafted:
        """Return the answer of a failed call; `why` comes from outside, and is sanitised and truncated."""
        error = fit_redacted(why[:READ_FOR_ERROR], MAX_ERROR, secrets)
        return Drafted(None, error or "failed without a word", tokens, int(self.passed_s * 1000))


def estimate(*texts: str) -> int:
    """Return a guess of the tokens in `texts`; an uncounted call is not free."""
    return -(-sum(map(len, texts)) // CHARACTERS_A_TOKEN)


def mask_command(command: Iterable[Any], secrets: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return a command without the known secrets, and without words after options that are named like secrets."""
    words: list[str] = []
    before = ""
    for word in map(str, list(command)[:MAX_WORDS]):
        hidden = _SECRET_OPTION.match(before[:MAX_WORD])
        words.append(MARK if hidden else fit_redacted(word, MAX_WORD, secrets))
        before = word
    return tuple(words)


def mask_stderr(stderr: str, secrets: tuple[str, ...] = ()) -> str:
    """Return the end of standard error, without secrets and instructions."""
    return fit_redacted(redact(stderr, secrets)[-MAX_STDERR:], MAX_STDERR, secrets, several_lines)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Return the operator's secret values."""
    known = [*(settings.cli_env or {}).values(), *filter(None, [settings.llm_api_key])]
    return tuple(value.get_secret_value() for value in known)


def place_fault(directory: Path | None) -> str | None:
    """Return the fault of a working directory; None if it has none."""
    if directory is None or (directory / ".git").exists():
        return None
    return f"{directory} is not a git repository" if directory.is_dir() else f"{directory} is no directory"
