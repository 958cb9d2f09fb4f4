"""Reads a git diff: for each file whether it is new or deleted, and the number of added and removed lines.

A diff comes from outside. The header of a hunk states how many lines the hunk has, and exactly these are counted. So a
line of a file that looks like a header of a diff does not count as a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

Kind = Literal["created", "changed", "deleted"]

HEAD = b"diff --git "
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abfnrtv"\\])')
_LETTERS = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
MAX_PATH = 512  # characters


class FileDiff(NamedTuple):
    """The part of a diff about one file: `start` and `end` are the part's place in the diff, in bytes."""

    path: str
    kind: Kind
    added: int
    removed: int
    start: int
    end: int


def read_diff(diff: bytes) -> list[FileDiff]:
    """Return the parts of a diff in their order. Raises nothing for input that is no diff."""
    found = []
    for start, end in _parts(diff):
        lines = diff[start:end].split(b"\n")
        head = next((number for number, line in enumerate(lines) if line.startswith(b"@@")), len(lines))
        said = lines[1:head]
        kind: Kind = "changed"
        if any(line.startswith(b"new file mode ") for line in said):
            kind = "created"
        elif any(line.startswith(b"deleted file mode ") for line in said):
            kind = "deleted"
        added, removed = _count(lines[head:])
        found.append(FileDiff(_path(lines[0]), kind, added, removed, start, end))
    return found


def _parts(diff: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each file's part, in bytes.

    A line of a file begins with a sign or a blank in a diff, so it never looks like the header of a part.
    """
    starts = [0] if diff.startswith(HEAD) else []
    starts += [match.start() + 1 for match in re.finditer(b"\n" + HEAD, diff)]
    yield from pairwise((*starts, len(diff)))


def _path(head: bytes) -> str:
    """Return the path in a header `diff --git`, which contains it twice: a rename appears as two files."""
    both = head.removeprefix(HEAD)
    name = both[: len(both) // 2]
    if name.startswith(b'"'):
        name = _ESCAPE.sub(lambda found: _byte(found[1]), name.strip(b'"'))
    return name.removeprefix(b"a/").decode(errors="replace")[:MAX_PATH]


def _byte(escape: bytes) -> bytes:
    if len(escape) == 3:
        return bytes([int(escape, 8) & 0xFF])
    return bytes([_LETTERS.get(escape[0], escape[0])])


def _count(lines: list[bytes]) -> tuple[int, int]:
    added = removed = old = new = 0
    for line in lines:
        if old <= 0 and new <= 0:
            if hunk := _HUNK.match(line):
                old, new = (1 if size is None else int(size) for size in hunk.groups())
        elif line.startswith(b"+"):
            added, new = added + 1, new - 1
        elif line.startswith(b"-"):
            removed, old = removed + 1, old - 1
        elif not line.startswith(b"\\"):
            old, new = old - 1, new - 1
    return added, removed
