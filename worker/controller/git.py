"""Git as a program: no shell, no hooks, no prompts, a fixed author."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

TIMEOUT_S = 300
AUTHOR = {"NAME": "planner controller", "EMAIL": "controller@planner.invalid"}
# Settings of a repository or a person must neither run code of theirs nor change what we read.
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "advice.detachedHead=false",
)


class GitError(Exception):
    """Git refused."""


def _environment() -> Mapping[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    people = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in AUTHOR.items()}
    return kept | people | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


class Git:
    """Git bound to one directory and to options that stand before every command."""

    def __init__(self, cwd: Path, *options: str) -> None:
        self._cwd = cwd
        self._words = ["git", *(word for setting in SETTINGS for word in ("-c", setting)), *options]

    def __call__(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """Return what the command prints; raises GitError unless its exit code is `ok`."""
        done = subprocess.run(  # noqa: S603 - a fixed program; arguments from outside are checked or stand behind `--`
            [*self._words, *args],
            cwd=self._cwd,
            env=_environment(),
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            process_group=0,  # so that ^C ends the step in hand, not half a commit
        )
        if done.returncode not in ok:
            raise GitError(f"git {args[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def line(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> str:
        """Return the one line that the command prints."""
        return self(*args, stdin=stdin, ok=ok).decode().strip()
