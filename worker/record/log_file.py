"""Files of log lines, as `planner export --log` writes them: read line by line, however large they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tasks.record.chain import MAX_LINE_BYTES
from worker.host import regular_files

STDIN = "-"


def is_file(source: str) -> bool:
    """Return whether a command's argument names a file of log lines, and not a plan."""
    return source == STDIN or "/" in source or source.endswith(".jsonl") or regular_files.is_file(source)


def read_lines(source: str) -> Iterator[bytes]:
    """Yield the lines of a file, or of stdin for `-`, without their line ends; raises OSError.

    If a line is longer than any worker writes, only its beginning is yielded; this is still too long for a valid line.
    """
    if source == STDIN:
        yield from _split(sys.stdin.buffer)
        return
    with Path(source).open("rb") as file:
        yield from _split(file)


def _split(file: IO[bytes]) -> Iterator[bytes]:
    most = MAX_LINE_BYTES + 2
    while piece := file.readline(most):
        yield piece.removesuffix(b"\n")
        while len(piece) == most and not piece.endswith(b"\n"):
            piece = file.readline(most)
