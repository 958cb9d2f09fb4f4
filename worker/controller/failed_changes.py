"""Stores changes that failed their verification on this host, by digest: a spec names them in `context.failed_diffs`.

A digest alone is of no use to an agent. If this host made one of the named changes, its agent is shown the diff. The
verification runs in any case: it alone decides whether a change is right.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp

from tasks.text.fields import several_lines
from tasks.text.secrets import fit_redacted
from worker.host.regular_files import read_below

MOST_KEPT = 200  # files
MOST_SHOWN = 2  # the newest ones
MAX_CHARS = 4000  # of a change
TITLE = "A change that was tried on these files before, and failed the checks (from an earlier attempt)"
NEW = ".new-"
_NAME = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger("planner.controller")


@dataclass(frozen=True, slots=True)
class FailedChanges:
    """Changes in `folder`, one file each; the oldest are removed first."""

    folder: Path
    secrets: tuple[str, ...] = ()  # values that no file contains, next to texts that look like secrets

    def keep(self, digest: str, change: bytes) -> None:
        """Store a change; an error here does not affect the attempt."""
        if not _NAME.fullmatch(digest):
            return
        read = change[: 16 * MAX_CHARS].decode(errors="replace")
        text = fit_redacted(read, MAX_CHARS, self.secrets, several_lines)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file, new = mkstemp(prefix=NEW, dir=self.folder)
            with os.fdopen(file, "wb") as opened:
                opened.write(text.encode(errors="replace"))
            Path(new).rename(self.folder / digest)
            for old in sorted(self.folder.iterdir(), key=_written)[:-MOST_KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            log.warning("failed_change_not_kept", extra={"error": str(error)})

    def shown(self, digests: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Return the title and the text of the newest changes with these digests, as far as they are stored here."""
        return tuple((TITLE, text) for text in [*self._texts(digests)][-MOST_SHOWN:])

    def _texts(self, digests: Sequence[str]) -> Iterator[str]:
        for digest in digests:
            if _NAME.fullmatch(digest):
                with suppress(OSError):
                    yield read_below(self.folder, digest, 8 * MAX_CHARS).decode(errors="replace")


def _written(path: Path) -> float:
    with suppress(OSError):
        return path.stat(follow_symlinks=False).st_mtime
    return 0.0
