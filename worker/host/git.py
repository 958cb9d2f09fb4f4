"""Runs git: without a shell, with a minimal environment, our configuration and a fixed author.

A repository's own settings are read. None of them can run a program or reach a network: such settings are set on the
command line, which has priority.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

TIMEOUT_S = 300
AUTHOR = {"NAME": "planner controller", "EMAIL": "controller@planner.invalid"}
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")  # what git needs of our environment, which holds secrets
SETTINGS = (
    # Settings that could run a foreign program.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=false",
    "core.askPass=",
    "core.pager=cat",
    "credential.helper=",
    "gpg.program=false",
    "log.showSignature=false",
    "init.templateDir=",
    # Settings that change the bytes of a file, or the visible files.
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    # Settings that start work by themselves, or refuse a repository of another user.
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "advice.graftFileDeprecated=false",
    "protocol.allow=never",
    "safe.directory=*",
)
ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    **{f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in AUTHOR.items()},
}
# How git reads another repository of this machine: with our settings too, and without a way to a third one.
UPLOAD_PACK = "GIT_ALLOW_PROTOCOL=none git -c safe.directory=* -c core.hooksPath=/dev/null upload-pack"


class GitError(Exception):
    """Git refused."""


class Git:
    """Git bound to one directory, with options before every command; `environment` is added to the minimal one."""

    def __init__(self, cwd: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self._cwd = cwd
        self._words = ["git", *(word for setting in SETTINGS for word in ("-c", setting)), *options]
        self._environment = {**ENVIRONMENT, **(environment or {})}

    def __call__(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """Return the output of the command. Raises GitError unless its exit code is `ok`."""
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        done = subprocess.run(  # noqa: S603 - a fixed program; arguments from outside are checked or stand behind `--`
            [*self._words, *args],
            cwd=self._cwd,
            env=kept | self._environment,
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            process_group=0,  # so that ^C ends the step in hand, not half a commit
        )
        if done.returncode not in ok:
            raise GitError(f"git {args[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def beside(self, environment: Mapping[str, str]) -> Git:
        """Return the same git with further variables in its environment."""
        found = Git(self._cwd, environment={**self._environment, **environment})
        found._words = self._words
        return found

    def line(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> str:
        """Return the single output line of the command."""
        return self(*args, stdin=stdin, ok=ok).decode().strip()
