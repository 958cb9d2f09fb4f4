"""The processes of the demo: they log into files, and none outlives the demo."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from worker.process.launch import worker_command
from worker.sandbox.process import SOURCES

GRACE_S = 4.0  # between SIGTERM and SIGKILL
TAIL_LINES = 12
PLANNER = (
    "-c",
    "from worker.start import planner; planner()",
)  # the command `planner`, also where it is not on the path
PACKAGES = ("schemas", "tasks", "worker")
AGENT = "worker.demo.agent"
CONTROLLERS = ("controller-1", "controller-2")


class Fleet:
    """A worker and two controllers in the directory `home`."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home, self._environment = home, {**environment, "TMPDIR": str(home / "tmp")}
        self._agents_sources = _link_packages(home / "sources")
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("logs", "tmp"):
            (home / name).mkdir()

    def start_worker(self, **settings: str) -> None:
        """Start what `planner worker --pool solo` runs: a Celery worker, with these variables beside."""
        self._start("worker", worker_command("solo")[1:], settings)

    def start_controllers(self, root: Path, queues: Sequence[str], kind: str) -> None:
        """Start two `planner controller` for `queues` on the repository `root`, with the scripted agent of a kind."""
        command = shlex.join((sys.executable, "-P", "-m", AGENT, kind))  # -P: whatever folders the repository has
        for name in CONTROLLERS:
            options = ["--exec", command, "--workdir", str(root), "--name", name]
            options += [word for queue in queues for word in ("--queue", queue)]
            options += [word for path in self._agents_sources for word in ("--agent-path", str(path))]
            self._start(name, (*PLANNER, "controller", *options), {"PYTHONPATH": str(self._agents_sources[0])})

    def ended(self) -> str | None:
        """Return the name of a process that has ended by itself, which none should."""
        return next((name for name, process in self._running.items() if process.poll() is not None), None)

    def stop(self) -> None:
        """End all: SIGTERM first, SIGKILL for those that are left after GRACE_S."""
        for process in self._running.values():
            _signal(process, signal.SIGTERM)
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            _signal(process, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, argv: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """Start Python with `argv`, in a session of its own: ^C is for us, who then end it."""
        with (self._home / "logs" / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, *argv],
                cwd=self._home,
                env={**self._environment, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _link_packages(place: Path) -> tuple[Path, ...]:
    """Make a folder of our packages for agents, who may not list where we are installed; return what they need."""
    packages = tuple(Path(SOURCES) / name for name in PACKAGES)
    place.mkdir()
    for package in packages:
        (place / package.name).symlink_to(package)
    return (place, *packages)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


@contextmanager
def fleet(home: Path, environment: Mapping[str, str]) -> Iterator[Fleet]:
    """Open a fleet that ends with the block."""
    processes = Fleet(home, environment)
    try:
        yield processes
    finally:
        processes.stop()


def tails(home: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the last lines of every log."""
    for log in sorted(home.glob("logs/*.log")):
        yield log.stem, log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
