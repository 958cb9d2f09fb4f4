"""Runs a command without a shell, in a process group of its own that ends with its time, its purpose or its leader."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from worker.controller.patience import Abandoned

POLL_S = 0.05
GRACE_S = 2.0  # between the polite signal and the other one
TAIL_BYTES = 256 * 1024
NOT_RUN = 127  # as a shell says it
TIMED_OUT = 124  # as timeout(1) says it
# Not for agents or tests: the planner's own settings and passwords, and what would lead git or pytest astray.
PRIVATE = ("PLANNER_", "SENTRY_", "REDIS", "VALKEY", "CELERY_", "GIT_", "PYTEST_")


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended: the ends of what it printed, and the digest of all of its standard output."""

    exit_code: int
    stdout: str
    stderr: str
    digest: str
    timed_out: bool = False


def environment() -> Mapping[str, str]:
    """Return our environment without what is private to the controller."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(PRIVATE)}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1"}


def run(
    argv: Sequence[str],
    cwd: Path,
    timeout_s: float,
    wanted: Callable[[], bool],
    stdin: bytes = b"",
    merge: bool = False,
) -> Finished:
    """Run `argv`; raises Abandoned, with nothing left running, once it is not `wanted`.

    Input and output are files: no pipe can fill up, and a forgotten grandchild cannot hold one open.
    """
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        errors = subprocess.STDOUT if merge else err
        try:
            process = subprocess.Popen(  # noqa: S603 - the catalogue's or the operator's command, no shell
                argv, cwd=cwd, env=environment(), stdin=given, stdout=out, stderr=errors, start_new_session=True
            )
        except (OSError, ValueError) as error:
            return _not_run(f"{argv[0]}: {error}", merge)
        try:
            code = _wait(process, time.monotonic() + timeout_s, wanted)
        finally:
            _end_group(process)
        return Finished(TIMED_OUT if code is None else code, _tail(out), _tail(err), _digest(out), code is None)


def _not_run(message: str, merge: bool) -> Finished:
    digest = hashlib.sha256(message.encode()).hexdigest()
    return Finished(NOT_RUN, message if merge else "", message, f"sha256:{digest}")


def _wait(process: subprocess.Popen[bytes], until: float, wanted: Callable[[], bool]) -> int | None:
    while time.monotonic() < until:
        if not wanted():
            raise Abandoned("unwanted")
        with suppress(subprocess.TimeoutExpired):
            return process.wait(POLL_S)
    return None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    _signal_group(process, signal.SIGKILL)  # also what a leader that ended left behind
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _tail(stream: IO[bytes]) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - TAIL_BYTES))
    return stream.read().decode(errors="replace")


def _digest(stream: IO[bytes]) -> str:
    stream.seek(0)
    return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"  # type: ignore[arg-type]
