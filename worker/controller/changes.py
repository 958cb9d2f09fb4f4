"""What an attempt did to the files: which it touched, and how large the change is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from worker.controller.snapshot import Marks
from worker.controller.store import SUBMODULE
from worker.host.git import Git


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between the commit `base` and the tree `tree`; a rename counts as both of its paths."""

    base: str
    tree: str = ""  # none was made of what is not allowed
    touched: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    escaping: tuple[str, ...] = ()  # links that lead out of the clone
    unfit: str | None = None  # why this cannot be landed whatever is allowed
    growth_kb: int = 0
    diff_lines: int = 0
    diff_hash: str | None = None


@dataclass(frozen=True, slots=True)
class _File:
    mode: bytes
    old: bytes
    new: bytes


def named(base: str, touched: Mapping[bytes, Marks | None], known: Iterable[bytes], root: Path) -> Changes:
    """Tell which files were `touched`: those without marks are gone, and those not `known` in `base` are new."""
    links = (path for path, marks in touched.items() if marks and marks.is_link)
    return Changes(
        base,
        touched=tuple(map(_text, touched)),
        created=tuple(_text(path) for path in touched if path not in known),
        escaping=tuple(_text(path) for path in links if leads_out(root, os.fsdecode(path))),
    )


def measured(git: Git, changes: Changes) -> Changes:
    """Tell how large the change is, now that it has a tree."""
    diff = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", changes.base, changes.tree)
    return replace(
        changes,
        growth_kb=round(_growth(git, _files(git(*diff, "--raw", "-z", "--abbrev=64"))) / 1024),
        diff_lines=_lines(git(*diff, "--numstat")),
        diff_hash=hashlib.sha256(git(*diff, "-p", "--binary", "--full-index")).hexdigest(),
    )


def leads_out(root: Path, path: str) -> bool:
    """Whether `path` is, or lies below, a link out of `root` or into its git directory; so does an absolute one."""
    place, top = root / path, Path(os.path.realpath(root))
    if place.is_symlink() and place.readlink().is_absolute():
        return True
    inside = Path(os.path.realpath(place))
    return not inside.is_relative_to(top) or ".git" in map(str.casefold, inside.relative_to(top).parts)


def _text(path: bytes) -> str:
    """Put a path into words: one that is not UTF-8 cannot be said in JSON; changed it is in no allowlist either."""
    return path.decode(errors="replace")


def _files(raw: bytes) -> Iterator[_File]:
    """Read `:old_mode new_mode old new status NUL path NUL`, again and again."""
    for about in raw.split(b"\0")[:-1:2]:
        _, mode, old, new, _ = about.split(b" ")
        yield _File(mode, old, new)


def _growth(git: Git, files: Iterable[_File]) -> int:
    """Add up by how many bytes the files grew."""
    files = [file for file in files if file.mode != SUBMODULE]
    sizes = git("cat-file", "--batch-check", stdin=b"".join(file.old + b"\n" + file.new + b"\n" for file in files))
    known = [int(line.split()[2]) if b" blob " in line else 0 for line in sizes.splitlines()]
    return sum(known[1::2]) - sum(known[::2])


def _lines(numstat: bytes) -> int:
    """Add up the lines added and removed; binary files have none."""
    return sum(int(word) for line in numstat.splitlines() for word in line.split(b"\t")[:2] if word.isdigit())
