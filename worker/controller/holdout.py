"""Tests that an operator stores next to a controller, found by their digest; no agent's clone ever contains them."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from worker.controller.changes import PlacedFile
from worker.controller.readiness import StepTrouble
from worker.controller.snapshot import RUN_MODE
from worker.host.regular_files import read

MAX_BYTES = 100 * 1024 * 1024  # of an archive, and of all files of one or of a folder
PLAIN_MODE = b"100644"

log = logging.getLogger("planner.controller")


class WrongHoldout(StepTrouble):
    """The held-out tests with this digest are not on this host, or cannot be read."""


class Holdouts:
    """The folders and archives of tests in `folder`; the tests that were read last stay in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digest, self._files = "", dict[bytes, PlacedFile]()

    def read(self, digest: str) -> Mapping[bytes, PlacedFile]:
        """Return the test files with this digest. Raises WrongHoldout."""
        if digest != self._digest:
            self._digest, self._files = digest, self._find(digest)
        return self._files

    def _find(self, digest: str) -> dict[bytes, PlacedFile]:
        for path in sorted(self.folder.iterdir()):
            if path.is_symlink():  # the target of a link is not hidden from agents
                log.warning("holdout_skipped", extra={"path": str(path), "reason": "it is a link"})
                continue
            try:
                found, content = _load(path)
            except OSError as error:
                log.warning("holdout_skipped", extra={"path": str(path), "reason": str(error)})
                continue
            if found == digest:
                try:
                    files = {os.fsencode(_checked(name)): file for name, file in _files(content)}
                except Exception as error:  # a broken archive raises many kinds of errors
                    raise WrongHoldout(f"the held-out tests {digest} cannot be read: {error!r}") from error
                if files:
                    return files
                raise WrongHoldout(f"the held-out tests {digest} are no files")
        raise WrongHoldout(f"no tests {digest} are stored at this controller (--holdout DIR)")


def digest_of(path: Path) -> str:
    """Return the digest of a folder of tests, or of an archive. Raises OSError.

    The digest of a folder covers its regular files in the order of their paths. Each has a line: path, NUL, digest of
    the content.
    """
    return _load(path)[0]


Content = bytes | list[tuple[str, PlacedFile]]  # of an archive, or of a folder


def _load(path: Path) -> tuple[str, Content]:
    if not path.is_dir():
        data = read(path, MAX_BYTES)
        return f"sha256:{hashlib.sha256(data).hexdigest()}", data
    found, files = hashlib.sha256(), list(_bounded(_in_folder(path)))
    for name, (_, content) in files:
        found.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode(errors="surrogateescape"))
    return f"sha256:{found.hexdigest()}", files


def _in_folder(path: Path) -> Iterator[tuple[str, PlacedFile]]:
    """Yield the regular files below a folder in the order of their paths; no link is followed."""
    there = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    for name, file in sorted((file.relative_to(path).as_posix(), file) for file in there):
        if file.is_file() and not file.is_symlink():
            yield name, (RUN_MODE if os.access(file, os.X_OK) else PLAIN_MODE, read(file, MAX_BYTES))


def _files(content: Content) -> Iterable[tuple[str, PlacedFile]]:
    if not isinstance(content, bytes):
        return content
    return _bounded(_of_zip(content) if zipfile.is_zipfile(io.BytesIO(content)) else _of_tar(content))


def _of_zip(data: bytes) -> Iterator[tuple[str, PlacedFile]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for each in archive.infolist():
            if not each.is_dir():
                _bound(each.file_size)
                yield each.filename, (PLAIN_MODE, archive.read(each))


def _of_tar(data: bytes) -> Iterator[tuple[str, PlacedFile]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            _bound(member.size)
            if member.isfile() and (content := archive.extractfile(member)):
                yield member.name, (RUN_MODE if member.mode & 0o100 else PLAIN_MODE, content.read())


def _bounded(files: Iterable[tuple[str, PlacedFile]]) -> Iterator[tuple[str, PlacedFile]]:
    size = 0
    for name, file in files:
        size += len(file[1])
        _bound(size)
        yield name, file


def _bound(size: int) -> None:
    if size > MAX_BYTES:
        raise OSError(f"more than {MAX_BYTES} bytes")


def _checked(name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or ".git" in map(str.casefold, parts):
        raise ValueError(f"{name!r} is no path in a clone")
    return "/".join(parts)
