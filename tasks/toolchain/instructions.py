"""Selects the AGENTS.md and CLAUDE.md for some files: those of the root, and the nearest above each file.

Producers and controllers use the same functions, so that a goal can fix these files for its agents by their digests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256

NAMES = ("AGENTS.md", "CLAUDE.md")
_WILD = re.compile(r"[*?]")


def paths_of(files: Iterable[str], patterns: Iterable[str]) -> Iterator[str]:
    """Yield all of `files`, and for each pattern a path in the folder before its first wildcard."""
    yield from files
    for pattern in patterns:
        fixed = _WILD.split(pattern, maxsplit=1)[0]
        yield f"{fixed.rpartition('/')[0]}/*"


def candidates(paths: Iterable[str]) -> list[str]:
    """Return the possible paths of instructions for `paths`; those at the root come first."""
    folders = dict.fromkeys(("", *(folder for path in paths for folder in _folders_above(path))))
    return [f"{folder}{name}" for folder in folders for name in NAMES]


def choose(paths: Iterable[str], there: Collection[str]) -> list[str]:
    """Return the instructions for `paths`, chosen from the existing files `there`; those at the root come first."""
    folders = {path.rpartition("/")[0] + "/" if "/" in path else "" for path in there if _is_one(path)}
    nearest = (next((folder for folder in _folders_above(path) if folder in folders), "") for path in paths)
    chosen = dict.fromkeys(("", *nearest))
    return [path for folder in chosen for name in NAMES if (path := f"{folder}{name}") in there]


def choose_of_goal(files: Iterable[str], patterns: Collection[str], there: Collection[str]) -> list[str]:
    """Return all instructions that a step of a goal may get, chosen from the existing files `there`.

    The goal's patterns also match new files, so all instructions below the patterns' folders are included.
    """
    below = tuple(path.removesuffix("*").lstrip("/") for path in paths_of((), patterns))
    chosen = choose(paths_of(files, patterns), there)
    return [*chosen, *(path for path in there if path not in chosen and _is_one(path) and path.startswith(below))]


def digests_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 digest of each file's text, by the path of the file."""
    return {path: f"sha256:{sha256(text.encode()).hexdigest()}" for path, text in texts.items()}


def _is_one(path: str) -> bool:
    return path.rpartition("/")[2] in NAMES


def _folders_above(path: str) -> list[str]:
    """Return the folders that contain a path, the nearest first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) + "/" for count in range(len(parts), 0, -1) if "" not in parts[:count]]
