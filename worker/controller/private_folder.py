"""Private folders of clones: one is locked while its controller lives, and removed when that has ended."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from worker.controller import snapshot

HELD = "held"  # the file that is locked


@contextmanager
def private_folder(name: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder under `parent` while the block lasts, and remove those of controllers that were killed."""
    _discard_left(Path(parent or gettempdir()))
    # Not below `.git`: several test runners refuse to see files there.
    home = Path(mkdtemp(prefix=f"planner-{name}-", dir=parent))
    with (home / "new").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (home / "new").rename(home / HELD)  # no other controller finds it before it is locked
        try:
            yield home
        finally:
            _discard(home)


def _discard_left(parent: Path) -> None:
    """Remove the folders in `parent` whose lock no process holds."""
    for file in parent.glob(f"planner-*/{HELD}"):
        home = file.parent
        with suppress(OSError):
            if home.is_symlink() or home.stat().st_uid != os.geteuid():
                continue  # any user may make folders there
            with file.open() as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _discard(home)


def _discard(home: Path) -> None:
    snapshot.discard(home / "clone")
    shutil.rmtree(home, ignore_errors=True)
