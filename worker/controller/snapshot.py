"""Reads a folder that another user wrote: every entry with its marks, without following a link.

Git never reads such a folder itself: `.gitattributes`, nested repositories, pipes and links are only names here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

from worker.host.regular_files import FOLDER, folder, read_at

GIT_DIR = b".git"
LINK_MODE, RUN_MODE = b"120000", b"100755"  # of git
MOST = 1_000_000  # files and folders; beyond that the attempt fails
TICK_NS = 20_000_000  # a file that changed this short a time before it was looked at may change again unnoticed
DEEPEST = 100  # folders in folders; each level holds a file open while it is looked at


class Unclean(OSError):
    """The folder cannot be cleaned entry by entry."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Attributes that identify the state of a file without reading it; only the kernel can set `changed_ns`."""

    mode: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @property
    def git_mode(self) -> bytes:
        """The mode in git's form."""
        return LINK_MODE if self.is_link else RUN_MODE if self.mode & stat.S_IXUSR else b"100644"


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """All entries of a folder by their paths, without its `.git`; `folders` has their permissions."""

    files: Mapping[bytes, Marks] = field(default_factory=dict)
    folders: Mapping[bytes, int] = field(default_factory=dict)
    taken_ns: int = 0
    mode: int = 0  # of the folder itself; as root we would not notice that another user cannot enter it any more

    def surely_has(self, path: bytes, marks: Marks | None) -> bool:
        """Return whether the file at `path` is surely unchanged since the snapshot; `marks` are its present ones."""
        known = self.files.get(path)
        return known is not None and known == marks and known.changed_ns < self.taken_ns - TICK_NS


def take(root: Path, clock: Path) -> TreeSnapshot:
    """Return a snapshot of all entries in `root`. Raises OSError if a folder cannot be read.

    Its time comes from the file system: the call touches the file `clock`, which must be on the same one.
    """
    clock.touch()
    files, folders = contents(root)
    return TreeSnapshot(files, folders, clock.stat().st_mtime_ns, root.stat().st_mode)


def contents(root: Path, *within: bytes) -> tuple[dict[bytes, Marks], dict[bytes, int]]:
    """Return the files and folders in the folder `within` of `root`. Raises OSError if one cannot be read."""
    files: dict[bytes, Marks] = {}
    folders: dict[bytes, int] = {}

    def look(handle: int, where: bytes, depth: int) -> None:
        for name, marks in _entries(handle, len(files) + len(folders)):
            if not stat.S_ISDIR(marks.mode):
                files[where + name] = marks
            elif where or name != GIT_DIR:
                folders[where + name] = stat.S_IMODE(marks.mode)
                with _inner(handle, name, depth) as inner:
                    look(inner, where + name + b"/", depth + 1)

    with folder(root.parent, [os.fsencode(root.name), *within]) as top:
        look(top, b"", 0)
    return files, folders


def clean(root: Path, known: TreeSnapshot) -> None:
    """Remove all entries that differ from `known`. Raises OSError if that is not possible."""

    def tidy(handle: int, where: bytes, depth: int) -> None:
        for name, marks in _entries(handle):
            path = where + name
            if not stat.S_ISDIR(marks.mode):
                if not known.surely_has(path, marks):
                    os.unlink(name, dir_fd=handle)
            elif path not in known.folders:
                shutil.rmtree(name, dir_fd=handle)
            elif known.folders[path] != stat.S_IMODE(marks.mode):
                raise Unclean(f"{path!r} has other permissions")
            else:
                with _inner(handle, name, depth) as inner:
                    tidy(inner, path + b"/", depth + 1)

    with folder(root.parent, [os.fsencode(root.name)]) as top:
        if os.fstat(top).st_mode != known.mode:
            raise Unclean("the folder has other permissions")
        tidy(top, b"", 0)


def discard(root: Path) -> None:
    """Move `root` away, and remove as much of it as possible."""
    if not os.path.lexists(root):
        return
    old = Path(mkdtemp(prefix="old-", dir=root.parent))
    root.rename(old / "it")
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # both follow no link, and go to any depth
        subprocess.run([*command, "--", str(old)], check=False, capture_output=True)  # noqa: S603 - fixed programs


def read(root: Path, path: bytes, most: int) -> bytes:
    """Return at most `most` bytes of the file or link at `path`. Raises OSError for any other kind of entry.

    A path through a link is refused, and only files and links are opened.
    """
    *folders, name = path.split(b"/")
    with folder(root.parent, [os.fsencode(root.name), *folders]) as handle:
        if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            return os.readlink(name, dir_fd=handle)
        return read_at(handle, name, most)


def remove(root: Path, path: bytes) -> None:
    """Remove the entry at `path` of `root` without following links. Raises OSError."""
    *folders, name = path.split(b"/")
    with folder(root.parent, [os.fsencode(root.name), *folders]) as handle:
        if stat.S_ISDIR(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=handle)
        else:
            os.unlink(name, dir_fd=handle)


def write(root: Path, path: bytes, mode: bytes, content: bytes) -> None:
    """Create a file or link with git's `mode` at `path` of `root`, where none exists, without following links.

    Raises OSError.
    """
    *folders, name = path.split(b"/")
    top = os.fsencode(root.name)
    for depth, inner in enumerate(folders):
        with folder(root.parent, [top, *folders[:depth]]) as handle, suppress(FileExistsError):
            os.mkdir(inner, dir_fd=handle)
    with folder(root.parent, [top, *folders]) as handle:
        if mode == LINK_MODE:
            os.symlink(content, name, dir_fd=handle)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(name, flags, 0o777 if mode == RUN_MODE else 0o666, dir_fd=handle)
        with os.fdopen(number, "wb") as file:
            file.write(content)


def object_id(kind: bytes, data: bytes, algorithm: str) -> bytes:
    """Return git's name of `data`."""
    return hashlib.new(algorithm, b"%s %d\0" % (kind, len(data)) + data, usedforsecurity=False).hexdigest().encode()


def _entries(handle: int, known: int = 0) -> list[tuple[bytes, Marks]]:
    """Return the entries of a folder. Raises an error if they are, with the `known` ones, too many."""
    listed: list[tuple[bytes, Marks]] = []
    with os.scandir(handle) as found:
        for entry in islice(found, MOST):
            it = entry.stat(follow_symlinks=False)
            marks = Marks(it.st_mode, it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
            listed.append((os.fsencode(entry.name), marks))
    if known + len(listed) >= MOST:
        raise Unclean(f"there are more than {MOST} files")
    return listed


@contextmanager
def _inner(handle: int, name: bytes, depth: int) -> Iterator[int]:
    if depth == DEEPEST:
        raise Unclean(f"folders are nested deeper than {DEEPEST}")
    inner = os.open(name, FOLDER, dir_fd=handle)
    try:
        yield inner
    finally:
        os.close(inner)
