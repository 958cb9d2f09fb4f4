"""Verified changes with too many files for one step: stored on this host until the steps of their chunks are claimed.

A plan divides such a change into steps. If such a step is claimed on the host that made the change, its verified files
are put in place without an agent. On any other host an agent does the step.
"""

from __future__ import annotations

import logging
import os
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp

from schemas import codec
from worker.controller.changes import PlacedFile
from worker.controller.repository import TreeEntry
from worker.host.regular_files import read_below

MOST_KEPT = 50  # changes; the oldest are removed first
MAX_BYTES = 20 * 1024 * 1024  # of the files of one
NEW = ".new-"

log = logging.getLogger("planner.controller")

Entries = Mapping[str, TreeEntry | None]
Files = Mapping[str, PlacedFile | None]


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """Changes in `folder`, one file each."""

    folder: Path

    def keep(self, plan_id: str, step_id: str, was: Entries, now: Files) -> None:
        """Store the files of a change, and their versions before it; an error here does not affect the attempt."""
        if sum(len(file[1]) for file in now.values() if file) > MAX_BYTES:
            return
        rows = {path: [_words(was[path]), _words(file and (file[0], b64encode(file[1])))] for path, file in now.items()}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            number, new = mkstemp(prefix=NEW, dir=self.folder)
            with os.fdopen(number, "wb") as opened:
                opened.write(codec.dumps(rows))
            Path(new).rename(self.folder / f"{plan_id}.{step_id}")
            for old in sorted(self.folder.iterdir(), key=_written)[:-MOST_KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            log.warning("change_not_kept", extra={"error": str(error)})

    def piece(self, plan_id: str, step_id: str, paths: Collection[str], now: Entries) -> Files | None:
        """Return the files of a stored change that `paths` name; `now` has their current entries.

        Returns None if no such change is stored, if it lacks one of the files, or if a file has changed since.
        """
        try:
            rows = codec.loads(read_below(self.folder, f"{plan_id}.{step_id}", 3 * MAX_BYTES))
        except (OSError, codec.DecodeError):
            return None
        if not paths or not rows.keys() >= set(paths):
            return None
        if any(_bytes(rows[path][0]) != now[path] for path in paths):
            return None
        new = {path: _bytes(rows[path][1]) for path in paths}
        return {path: file and (file[0], b64decode(file[1])) for path, file in new.items()}


def _words(pair: tuple[bytes, bytes] | None) -> list[str] | None:
    return [part.decode() for part in pair] if pair else None


def _bytes(pair: list[str] | None) -> tuple[bytes, bytes] | None:
    return (pair[0].encode(), pair[1].encode()) if pair else None


def _written(path: Path) -> float:
    with suppress(OSError):
        return path.stat(follow_symlinks=False).st_mtime
    return 0.0
