"""The results of a setup command in the clone, such as installed packages: copied outside of it, and restored by file.

The agent can change everything in the clone, so files there may be poisoned. A file stays only if the kernel confirms
that it has not changed since it was written. Any other file is written again from the copy, whose digest is checked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from schemas.step import ROOT
from tasks.toolchain.files import decides_installation
from worker.controller import snapshot
from worker.controller.snapshot import TreeSnapshot
from worker.controller.wire import Tool
from worker.host.regular_files import folder

DEFAULT_S = 600.0
PROGRAMS = {".venv": ("bin",), "venv": ("bin",), "node_modules": (".bin",), "vendor": ("bin",)}  # by their results
MOST_KEPT = 3  # results, each of other lock files
MAX_BYTES = 8 * 1024**3  # of one result
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class WrongResult(OSError):
    """The results of the setup command cannot be kept, or the copy was changed."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A command that makes `results` in the clone, such as installed packages.

    It runs once for each content of the lock files. By default, `lock_files` are all manifests and lock files, and
    `results` are all new files.
    """

    argv: Sequence[str]
    lock_files: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    timeout_s: float = DEFAULT_S

    def key(self, files: Mapping[bytes, object], *, anew: bool = False) -> str:
        """Return the key of the results: a hash of the command, and of the `files` that it or `lock_files` name.

        With `anew`, all manifests and lock files count. Files outside of the clone count by their modification times.
        """
        read = (*self.lock_files, *filter(None, map(path_of, self.argv)))
        if anew or not self.lock_files:
            read = (*read, *sorted(path for path in map(os.fsdecode, files) if decides_installation(path)))
        names = dict.fromkeys(read)
        inside = [(name, files.get(os.fsencode(name))) for name in names]
        outside = [(found.st_ino, found.st_mtime_ns) for word in self.argv if (found := _outside(word))]
        return hashlib.sha256(repr([self, inside, outside]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The stored results of a setup: files with permissions and digests, links with targets, and folders, all by path.

    All paths are at or below `tops`.
    """

    tops: tuple[bytes, ...]
    files: Mapping[bytes, tuple[int, bytes]]
    links: Mapping[bytes, bytes]
    folders: Mapping[bytes, int]


@dataclass(slots=True)
class SetupResults:
    """The results of setups that are stored in the folder `home`, by key."""

    home: Path
    _kept: dict[str, _Kept] = field(default_factory=dict)
    _placed: tuple[str, TreeSnapshot] = ("", TreeSnapshot())

    def has(self, key: str) -> bool:
        """Return whether the result `key` is kept."""
        return key in self._kept

    def keep(self, key: str, root: Path, tops: Sequence[bytes], now: TreeSnapshot) -> None:
        """Copy the part of `now` at `tops` of `root`. Raises OSError if it cannot be kept."""
        store = self.home / key
        self._drop(key)
        store.mkdir(parents=True)
        files, links = {}, {}
        parents = (top.split(b"/")[:-1] for top in tops)
        folders = {b"/".join(each[: depth + 1]): 0o755 for each in parents for depth in range(len(each))}
        folders |= {path: mode for path, mode in now.folders.items() if is_within(path, tops)}
        size = 0
        for path, marks in now.files.items():
            if not is_within(path, tops):
                continue
            content = snapshot.read(root, path, MAX_BYTES)
            size += len(content)
            if size > MAX_BYTES or not (marks.is_file or marks.is_link):
                raise WrongResult(f"{path!r}: results of a setup are files and links of {MAX_BYTES} bytes at most")
            if marks.is_link:
                links[path] = content
                continue
            digest = hashlib.sha256(content).hexdigest()
            files[path] = stat.S_IMODE(marks.mode) & 0o777, digest.encode()
            (store / digest).write_bytes(content)
        self._kept[key] = _Kept(tuple(tops), files, links, folders)
        for old in list(self._kept)[:-MOST_KEPT]:
            self._drop(old)

    def tops(self, key: str) -> tuple[bytes, ...]:
        """Return the topmost paths of the result `key`."""
        return self._kept[key].tops

    def put_back(self, key: str, root: Path) -> None:
        """Restore the result `key` in `root`. If the copy was changed, deletes it and raises OSError."""
        kept, (placed, known) = self._kept[key], self._placed
        try:
            there = self._remove_others(root, kept, known if placed == key else TreeSnapshot())
            for path, mode in sorted(kept.folders.items()):
                with _parent(root, path) as (handle, name), suppress(FileExistsError):
                    os.mkdir(name, mode | 0o700, dir_fd=handle)
            for path, target in kept.links.items():
                if path not in there:
                    with _parent(root, path) as (handle, name):
                        os.symlink(target, name, dir_fd=handle)
            for path, (mode, digest) in kept.files.items():
                if path not in there:
                    self._write(root, path, mode, (self.home / key / digest.decode()).read_bytes(), digest)
        except OSError:
            self._drop(key)
            raise

    def placed(self, key: str, now: TreeSnapshot) -> None:
        """Record `now` as the state of the clone with the result `key`."""
        self._placed = (key, now)

    def _remove_others(self, root: Path, kept: _Kept, known: TreeSnapshot) -> set[bytes]:
        """Remove files that are not of `kept`, or that may have changed. Returns the files that stay."""
        tops, now = kept.tops, snapshot.contents(root)
        there: set[bytes] = set()
        for path, marks in now[0].items():
            if is_within(path, tops):
                if known.surely_has(path, marks) and (path in kept.files or path in kept.links):
                    there.add(path)
                else:
                    snapshot.remove(root, path)
        for path in sorted(now[1], reverse=True):
            if is_within(path, tops) and path not in kept.folders:
                snapshot.remove(root, path)
        return there

    def _write(self, root: Path, path: bytes, mode: int, content: bytes, digest: bytes) -> None:
        if hashlib.sha256(content).hexdigest().encode() != digest:
            raise WrongResult(f"the copy of {path!r} has been altered")
        with _parent(root, path) as (handle, name), os.fdopen(os.open(name, NEW, 0o600, dir_fd=handle), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)

    def _drop(self, key: str) -> None:
        self._kept.pop(key, None)
        shutil.rmtree(self.home / key, ignore_errors=True)


def path_of(word: str) -> str:
    """Return the path of the clone that a word of a command may refer to; "" if it refers to another place."""
    path = os.path.normpath(word.partition("::")[0].rpartition("=")[2])
    return "" if "\0" in path or path.startswith(("/", "..")) else path


def paths_of(tool: Tool) -> tuple[str, ...]:
    """Return the paths of the clone that a verification may use: its folder, and paths in its words."""
    seen = (os.path.normpath(f"{tool.cwd}/{path}") for word in tool.argv if (path := path_of(word)))
    return (*(() if tool.cwd == ROOT else (tool.cwd,)), *(path for path in seen if not path.startswith("..")))


def _outside(word: str) -> os.stat_result | None:
    path = Path(word)
    return path.stat() if path.is_absolute() and path.is_file() else None


def is_within(path: bytes, tops: Sequence[bytes]) -> bool:
    """Return whether `path` is one of `tops`, or below one."""
    return any(path == top or path.startswith(top + b"/") for top in tops)


def tops_of(paths: Iterable[bytes], known: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return for each of `paths` the highest folder above it that contains no `known` file, or else the path itself."""
    there = {b"/".join(parts[:depth]) for path in known for parts in [path.split(b"/")] for depth in range(len(parts))}
    tops: dict[bytes, None] = {}
    for path in paths:
        parts = path.split(b"/")
        above = (b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        if top := next((each for each in above if each not in there), None):
            tops[top] = None
    return tuple(tops)


@contextmanager
def _parent(root: Path, path: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the open folder of `path` in `root`, and the name of the file; no link is followed."""
    *folders, name = path.split(b"/")
    with folder(root.parent, [os.fsencode(root.name), *folders]) as handle:
        yield handle, name
