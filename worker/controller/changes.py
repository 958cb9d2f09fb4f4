"""What an attempt did to the files, as git sees it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from worker.controller.git import Git

LINK = b"120000"
SUBMODULE = b"160000"


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between the commit `base` and the tree `tree`; a rename counts as both of its paths."""

    base: str
    tree: str
    touched: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    escaping: tuple[str, ...] = ()  # symbolic links that lead out of the tree
    growth_kb: int = 0
    diff_lines: int = 0
    diff_hash: str | None = None


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    status: bytes
    mode: bytes
    old: bytes
    new: bytes


def between(git: Git, root: Path, base: str, tree: str) -> Changes:
    """Compare `base` with `tree`, whose files lie in `root`."""
    diff = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", base, tree)
    files = tuple(_files(git(*diff, "--raw", "-z", "--abbrev=64")))
    if not files:
        return Changes(base, tree)
    return Changes(
        base,
        tree,
        touched=tuple(file.path for file in files),
        created=tuple(file.path for file in files if file.status == b"A"),
        escaping=tuple(file.path for file in files if file.mode == LINK and _escapes(root, file.path)),
        growth_kb=round(_growth(git, files) / 1024),
        diff_lines=_lines(git(*diff, "--numstat")),
        diff_hash=hashlib.sha256(git(*diff, "-p", "--binary", "--full-index")).hexdigest(),
    )


def _files(raw: bytes) -> Iterator[_File]:
    """Read `:old_mode new_mode old new status NUL path NUL`, again and again."""
    words = raw.split(b"\0")
    for about, path in zip(words[::2], words[1::2], strict=False):
        _, mode, old, new, status = about.split(b" ")
        # A path that is not UTF-8 cannot be said in JSON; changed like this it is in no allowlist either.
        yield _File(path.decode(errors="replace"), status, mode, old, new)


def _growth(git: Git, files: Iterable[_File]) -> int:
    """Add up by how many bytes the files grew."""
    files = [file for file in files if file.mode != SUBMODULE]
    sizes = git("cat-file", "--batch-check", stdin=b"".join(file.old + b"\n" + file.new + b"\n" for file in files))
    known = [int(line.split()[2]) if b" blob " in line else 0 for line in sizes.splitlines()]
    return sum(known[1::2]) - sum(known[::2])


def _lines(numstat: bytes) -> int:
    """Add up the lines added and removed; binary files have none."""
    return sum(int(word) for line in numstat.splitlines() for word in line.split(b"\t")[:2] if word.isdigit())


def _escapes(root: Path, path: str) -> bool:
    link = root / path
    if not link.is_symlink() or link.readlink().is_absolute():
        return True
    inside = Path(os.path.realpath(link))
    top = Path(os.path.realpath(root))
    return not inside.is_relative_to(top) or ".git" in inside.relative_to(top).parts
