"""Chooses the AGENTS.md and CLAUDE.md that concern some files: those of the root, and the nearest above each file.

Producers and controllers use the same functions, so that a goal can fix the files for its agents by their digests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256

NAMES = ("AGENTS.md", "CLAUDE.md")
_WILD = re.compile(r"[*?]")


def paths_of(files: Iterable[str], patterns: Iterable[str]) -> Iterator[str]:
    """Yield `files`, and for each pattern a path in the folder that it begins with."""
    yield from files
    for pattern in patterns:
        fixed = _WILD.split(pattern, maxsplit=1)[0]
        yield f"{fixed.rpartition('/')[0]}/*"


def candidates(paths: Iterable[str]) -> list[str]:
    """List the places where instructions for `paths` may lie, those of the root first."""
    folders = dict.fromkeys(("", *(folder for path in paths for folder in _folders_above(path))))
    return [f"{folder}{name}" for folder in folders for name in NAMES]


def choose(paths: Iterable[str], there: Collection[str]) -> list[str]:
    """List the instructions for `paths` among the files that are `there`, those of the root first."""
    folders = {path.rpartition("/")[0] + "/" if "/" in path else "" for path in there if _is_one(path)}
    nearest = (next((folder for folder in _folders_above(path) if folder in folders), "") for path in paths)
    chosen = dict.fromkeys(("", *nearest))
    return [path for folder in chosen for name in NAMES if (path := f"{folder}{name}") in there]


def choose_of_goal(files: Iterable[str], patterns: Collection[str], there: Collection[str]) -> list[str]:
    """List the instructions that any step may be given of a goal, whose patterns mean new files, too."""
    below = tuple(path.removesuffix("*").lstrip("/") for path in paths_of((), patterns))
    chosen = choose(paths_of(files, patterns), there)
    return [*chosen, *(path for path in there if path not in chosen and _is_one(path) and path.startswith(below))]


def digests_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the digest of each file: of its content as UTF-8, where other bytes are replaced."""
    return {path: f"sha256:{sha256(text.encode()).hexdigest()}" for path, text in texts.items()}


def _is_one(path: str) -> bool:
    return path.rpartition("/")[2] in NAMES


def _folders_above(path: str) -> list[str]:
    """List the folders that a path lies in, the nearest first and the root left out."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) + "/" for count in range(len(parts), 0, -1) if "" not in parts[:count]]
