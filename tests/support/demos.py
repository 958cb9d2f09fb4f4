"""The demo in a process of its own, as a newcomer starts it, and what is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from worker.demo import fleet

PLANNER = [sys.executable, *fleet.PLANNER]


def started(place: Path, *options: str, **more: str) -> subprocess.Popen[str]:
    """Start the demo, with nothing in its environment that a newcomer has not."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), **more}
    return subprocess.Popen(
        [*PLANNER, "demo", *options],
        cwd=place / "somewhere",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of(place: Path) -> Iterator[str]:
    """Find what still runs with this TMPDIR or in it; every process of the demo inherits it."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(place).encode() in (entry / "environ").read_bytes():
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # not ours to read, or gone meanwhile
            continue
