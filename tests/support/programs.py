"""Runs a program of ours beside a test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

Running = AbstractContextManager[subprocess.Popen[bytes]]


@contextmanager
def running(
    argv: Sequence[str], env: Mapping[str, str], log: Path, cwd: Path, passed: tuple[int, ...] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `argv` until the end of the block, or before; then it is asked to end, and what it logged is shown."""
    with log.open("wb") as file:
        process = subprocess.Popen(argv, env=env, cwd=cwd, stdout=file, stderr=file, pass_fds=passed)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
        print(log.read_text())  # noqa: T201 - why, where it fails
