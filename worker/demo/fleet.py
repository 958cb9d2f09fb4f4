"""The processes of the demo: they log into files, and none outlives the demo."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from worker.process.launch import worker_command
from worker.sandbox.process import SOURCES

GRACE_S = 4.0  # between SIGTERM and SIGKILL
PLANNER = ("-c", "from worker.start import planner; planner()")  # the command `planner`, also if it is not on the path
PACKAGES = ("schemas", "tasks", "worker")
AGENT = "worker.demo.agent"
CONTROLLERS = ("controller-1", "controller-2")


class Fleet:
    """A worker and two controllers in the directory `home`."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home, self._environment = home, {**environment, "TMPDIR": str(home / "tmp")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._sources = home / "sources"  # links to our packages: agents may not list where we are installed
        for name in ("logs", "tmp", "sources"):
            (home / name).mkdir()
        for package in PACKAGES:
            (self._sources / package).symlink_to(Path(SOURCES) / package)

    def start_worker(self, **settings: str) -> None:
        """Start what `planner worker --pool solo` runs: a Celery worker, with these variables beside."""
        self._start("worker", worker_command("solo")[1:], settings)

    def start_controllers(self, root: Path, queues: Sequence[str], kind: str) -> None:
        """Start two `planner controller` for `queues` on the repository `root`, with the scripted agent of a kind."""
        command = shlex.join((sys.executable, "-P", "-m", AGENT, kind))  # -P: whatever folders the repository has
        options = ["--exec", command, "--workdir", str(root)]
        options += [f"--queue={queue}" for queue in queues]
        options += [f"--agent-path={path}" for path in (self._sources, *(Path(SOURCES) / name for name in PACKAGES))]
        for name in CONTROLLERS:
            self._start(name, (*PLANNER, "controller", "--name", name, *options), {"PYTHONPATH": str(self._sources)})

    def find_ended(self) -> str | None:
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

    def _start(self, name: str, argv: Sequence[str], settings: Mapping[str, str]) -> None:
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


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
