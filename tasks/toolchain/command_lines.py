"""Command lines: split into words without a shell, and rendered for people."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

from schemas.step import ROOT, VerifyTool
from tasks.base.errors import UnknownCommand

AND = " && "
MOST_KEPT = 1000  # characters of a command whose words are kept
_SHELL = re.compile(r"[;|&$<>`\\\x00-\x1f\x7f]")  # characters that a shell interprets, even between quotes


def words(command: str) -> tuple[str, ...]:
    """Split a command line like a shell; refuse every character that a shell would interpret."""
    return _kept_words(command) if len(command) <= MOST_KEPT else _split(command)


@lru_cache(maxsize=4096)
def _kept_words(command: str) -> tuple[str, ...]:
    return _split(command)


def _split(command: str) -> tuple[str, ...]:
    if found := _SHELL.search(command):
        raise UnknownCommand(f"`{quote(command)}` holds {found.group()!r}: a verification is run without a shell.")
    if "'" not in command and '"' not in command:
        return tuple(word for word in command.split(" ") if word)  # the result of shlex here, thirty times faster
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise UnknownCommand(f"`{quote(command)}` cannot be read: {error}.") from error


def render(tools: Sequence[VerifyTool]) -> str:
    """Return one command line for people and for a shell: all `tools`, each in its folder, until one fails."""
    return AND.join([_join(tool.argv) if tool.cwd == ROOT else _join_in(tool.cwd, tool.argv) for tool in tools])


_join = lru_cache(maxsize=512)(shlex.join)


def _join_in(folder: str, argv: tuple[str, ...]) -> str:
    return f"(cd {shlex.quote(folder)}{AND}{_join(argv)})"


def split_commands(text: str) -> list[str]:
    """Split the output of `render` into its commands, each with its folder."""
    found: list[str] = []
    for part in text.split(AND):
        if found and found[-1].startswith("(cd ") and AND not in found[-1]:
            found[-1] += AND + part
        else:
            found.append(part)
    return found


def quote(text: str) -> str:
    """Truncate a refused command for the error that its sender reads.

    The sender must recognize it, so it is not sanitized. Code that puts the error into a prompt or a step passes it
    through `fields.fit`.
    """
    return text if len(text) <= 80 else text[:79] + "…"
