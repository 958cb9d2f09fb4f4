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
    """Whether a command's argument means a file of log lines; else it means a plan."""
    return source == STDIN or "/" in source or source.endswith(".jsonl") or regular_files.is_file(source)


def read_lines(source: str) -> Iterator[bytes]:
    """Yield the lines of a file, or of stdin for `-`, without their line ends; raises OSError.

    Of a line that is longer than any worker writes only the beginning comes, which is too long to be taken for a line.
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
