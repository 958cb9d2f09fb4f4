"""Reads files that others named or wrote: only regular ones, of limited size, and without following links.

A link could reveal a file that its author cannot read; a pipe could block the reader for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
IRREGULAR = "this is no regular file"
LINK = "{!r} is a symbolic link, and links are not followed: name what it leads to"
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class UnreadableFile(OSError):
    """This is no readable file; `strerror` is the reason in plain words."""


def read(path: Path, most: int) -> bytes:
    """Return the content of a regular file. Raises OSError, also for more than `most` bytes.

    No part of a relative path may be a link, because all of the path may belong to a repository. Only the last part of
    an absolute path must not be a link; the operator controls the folders above.
    """
    above, below = _split(path)
    with folder(above, below[:-1]) as handle:
        return read_at(handle, below[-1], most)


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Open a folder for the block, by the same rule about links as `read`, and yield its descriptor. Raises OSError."""
    with folder(*_split(path)) as handle:
        yield handle


def _split(path: Path) -> tuple[Path, list[bytes]]:
    """Return the folder to start from, and the names below it that must not be links, at least one.

    For an absolute path, only the last name must not be a link.
    """
    above, below = (path.parent, (path.name,)) if path.is_absolute() else (Path(), path.parts or (".",))
    return above, [os.fsencode(part) for part in below]


def is_file(name: str) -> bool:
    """Return whether a file with this name exists; False if it may not be checked, or no file can have it."""
    try:
        return Path(name).is_file()
    except OSError:
        return False


def is_folder(name: str) -> bool:
    """Return whether a folder with this name exists, as `is_file` does."""
    try:
        return Path(name).is_dir()
    except OSError:
        return False


def read_setting(path: Path, most: int) -> bytes:
    """Return the content of a file that a setting names; links are allowed, as in a mounted ConfigMap.

    Raises OSError, also for more than `most` bytes.
    """
    return read(path.resolve(), most)


def read_below(root: Path, path: str, most: int, *, cut: bool = False) -> bytes:
    """Return the content of the file at `path` below `root`. Raises OSError, also for more than `most` bytes.

    With `cut` the content is truncated to `most` bytes instead. `root` may contain links, `path` must not.
    """
    *folders, name = Path(path).parts or (".",)
    with folder(root, [os.fsencode(part) for part in folders]) as handle:
        return read_at(handle, os.fsencode(name), most, cut=cut)


def read_at(handle: int, name: bytes, most: int, *, cut: bool = False) -> bytes:
    """Return the content of the file `name` in the folder with the descriptor `handle`.

    Raises OSError for a link, for another kind of file, and for more than `most` bytes. With `cut` the content is
    truncated to `most` bytes instead.
    """
    with _explained(name, handle):
        number = os.open(name, FILE, dir_fd=handle)
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        os.close(number)
        raise UnreadableFile(errno.EINVAL, IRREGULAR, os.fsdecode(name))
    with os.fdopen(number, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most and not cut:
        size = max(found.st_size, len(data))
        raise UnreadableFile(errno.EFBIG, f"it has {size} bytes, and the limit is {most}", os.fsdecode(name))
    return data[:most]


@contextmanager
def folder(root: Path, below: Sequence[bytes] = ()) -> Iterator[int]:
    """Open `root` and the folders `below` it, which must not be links; yield the last descriptor. Raises OSError."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in below:
            with _explained(name, handle):
                inner = os.open(name, FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _explained(name: bytes, handle: int) -> Iterator[None]:
    """Raise errors about links, pipes and sockets with a clear message; raise other errors unchanged."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UnreadableFile(error.errno, IRREGULAR, os.fsdecode(name)) from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, handle):
            raise UnreadableFile(error.errno, LINK.format(os.fsdecode(name)), os.fsdecode(name)) from error
        raise


def _is_link(name: bytes, handle: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
