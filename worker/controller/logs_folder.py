"""The folder for records of attempts on a host: one private folder for each, limited by age and size.

The controllers of a host share it. An attempt's folder appears complete, and no other file in it is ever touched.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from worker.controller.attempt_log import FILES, MAX_FILE_BYTES
from worker.host.regular_files import read_below

DAY_S = 86_400
TIDY_S = 3600  # the longest time between two looks at ages
SHARE = 20  # between two looks at the size a controller writes at most this part of it
NEW = ".new-"
NAMES = tuple(re.compile(each) for each in (r"plan_[0-9a-f]{2}-[0-9a-f]{32}", r"[a-z0-9-]{1,64}", r"[0-9]{1,7}"))

log = logging.getLogger("planner.controller")


def logs_path(state: Path, named: str | None) -> Path:
    """Return the folder `named`, else the default folder of controllers with their state in `state`."""
    return Path(named).expanduser().absolute() if named else (state / "attempts").absolute()


class KeptAttempt(NamedTuple):
    """The folder of one attempt, with its time of writing and its size in bytes."""

    written: float
    size: int
    path: Path


@dataclass(slots=True)
class LogsFolder:
    """Attempts at `path`, each in `<plan>/<step>/<attempt>`: kept for `days`, and of about `most_bytes` in total."""

    path: Path
    days: float = 14.0
    most_bytes: int = 2 * 1000**3
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _written: int = field(default=0, init=False)  # bytes since the last look
    _looked: float = field(default=0.0, init=False)
    _is_told: bool = field(default=False, init=False)  # whether the warning was logged

    def make(self) -> None:
        """Create the folder with access for this user only. Raises OSError if it cannot be private."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        if self.path.parent.stat().st_uid not in {os.geteuid(), 0}:  # its owner may put another folder there
            raise PermissionError(f"{self.path.parent} belongs to another user")
        if self.path.is_symlink() or self.path.stat().st_uid != os.geteuid():
            raise PermissionError(f"{self.path} belongs to another user")
        self.path.chmod(0o700)

    def place(self, plan_id: str, step_id: str, attempt: int) -> Path:
        """Return the folder of an attempt."""
        return self.path / plan_id / step_id / str(attempt)

    def keep(self, place: Path, files: Mapping[str, bytes]) -> bool:
        """Write an attempt's files to its `place`, and from time to time remove old attempts.

        Returns False if the files cannot be written; this is logged once.
        """
        try:
            self._write(place, files)
        except OSError as error:
            if not self._is_told:
                log.warning("attempt_not_kept", extra={"path": str(place), "error": str(error)})
            self._is_told = True
            return False
        self._is_told = False
        self._written += sum(map(len, files.values()))
        if self._written > self.most_bytes / SHARE or time.time() - self._looked > TIDY_S:
            self.tidy()
        return True

    def _write(self, place: Path, files: Mapping[str, bytes]) -> None:
        new = Path(mkdtemp(prefix=NEW, dir=self.path))
        try:
            for name, data in files.items():
                (new / name).write_bytes(data)
            shutil.rmtree(place, ignore_errors=True)  # of a controller that died, and had the same attempt
            try:
                self._move(new, place)
            except FileNotFoundError:  # another controller's cleanup has removed the empty folder
                self._move(new, place)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            raise

    @staticmethod
    def _move(new: Path, place: Path) -> None:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.rename(place)

    def attempts(self, plan_id: str, step_id: str) -> list[int]:
        """Return the numbers of a step's attempts that are stored here."""
        if not (NAMES[0].fullmatch(plan_id) and NAMES[1].fullmatch(step_id)):
            return []
        step = self.path / plan_id / step_id
        return sorted(int(entry.name) for entry in _folders(step) if NAMES[2].fullmatch(entry.name))

    def read(self, plan_id: str, step_id: str, attempt: int) -> dict[str, bytes]:
        """Return the files of a stored attempt by name; an empty mapping if it is not stored."""
        found = {}
        for name in FILES if attempt in self.attempts(plan_id, step_id) else ():
            with suppress(OSError):
                found[name] = read_below(self.path, f"{plan_id}/{step_id}/{attempt}/{name}", 2 * MAX_FILE_BYTES)
        return found

    def tidy(self) -> None:
        """Remove attempts that are too old, and then the oldest ones until the size is below the limit."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._written, self._looked = 0, time.time()
            found = sorted(self._kept())
            size = sum(each.size for each in found)
            for each in found:
                if size <= self.most_bytes and each.written >= self._looked - self.days * DAY_S:
                    break
                shutil.rmtree(each.path, ignore_errors=True)
                size -= each.size
                for empty in each.path.parents[:2]:
                    with suppress(OSError):
                        empty.rmdir()
            for entry in _folders(self.path):
                if entry.name.startswith(NEW) and _age(entry) > TIDY_S:  # of a controller that was killed
                    shutil.rmtree(entry.path, ignore_errors=True)
        finally:
            self._lock.release()

    def _kept(self) -> Iterator[KeptAttempt]:
        found = [self.path]
        for name in NAMES:
            found = [Path(entry.path) for path in found for entry in _folders(path) if name.fullmatch(entry.name)]
        for path in found:
            with suppress(OSError):
                size = sum(file.stat(follow_symlinks=False).st_size for file in os.scandir(path))
                yield KeptAttempt(path.stat().st_mtime, size, path)


def _folders(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # another controller has removed it


def _age(entry: os.DirEntry[str]) -> float:
    with suppress(OSError):
        return time.time() - entry.stat(follow_symlinks=False).st_mtime
    return 0.0
