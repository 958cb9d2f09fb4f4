"""Changes that failed their verification here, kept by their digests: what a spec's `context.failed_diffs` names.

An agent cannot do anything with a digest. Where this host has made one of the changes that a spec names, its agent is
shown what was tried. The verification runs in any case: only that says whether a change is right.
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
MOST_SHOWN = 2  # the newest of those that are named
MAX_CHARS = 4000  # of a change
TITLE = "A change that was tried on these files before, and failed the checks (from an earlier attempt)"
NEW = ".new-"
_NAME = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger("planner.controller")


@dataclass(frozen=True, slots=True)
class FailedChanges:
    """Changes in `folder`, one file each; those that were kept first go first."""

    folder: Path
    secrets: tuple[str, ...] = ()  # that are in no file, beside what looks like one

    def keep(self, digest: str, change: bytes) -> None:
        """Keep a change; nothing that goes wrong there matters to the attempt."""
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
        """Tell the newest of the changes that are named, as far as they are kept here: titles and texts."""
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
