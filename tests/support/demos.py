"""The demo in a process of its own, as a newcomer starts it, and the processes that it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.demo import fleet

PLANNER = [sys.executable, *fleet.PLANNER]
PATIENCE_S = 240.0  # a demo takes about ten seconds, and much longer on a machine that does other things as well
MOST_CPU_S = 45.0  # of a demo: for this long somebody watches whose machine is slow and does nothing else


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a demo: its exit code, its output, and the seconds of CPU that all of its processes took."""

    returncode: int
    out: str
    err: str
    cpu_s: float

    @property
    def told(self) -> Any:
        """The JSON object that the demo printed."""
        assert self.returncode == 0, self.err
        assert self.cpu_s < MOST_CPU_S
        told = json.loads(self.out)
        assert 0 < told["seconds"] < PATIENCE_S
        return told


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


def played(place: Path, *options: str, **more: str) -> Played:
    """Play the demo to its end."""
    before = _cpu_s()
    demo = started(place, *options, **more)
    out, err = demo.communicate(timeout=PATIENCE_S)
    return Played(demo.returncode, out, err, _cpu_s() - before)


def _cpu_s() -> float:
    """Add up the seconds of CPU of all processes that this one, or one of them, has waited for."""
    used = os.times()
    return used.children_user + used.children_system


def processes_of(place: Path) -> Iterator[str]:
    """Yield the running processes whose environment names this TMPDIR; every process of the demo inherits it."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(place).encode() in (entry / "environ").read_bytes():
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # not ours to read, or gone meanwhile
            continue
