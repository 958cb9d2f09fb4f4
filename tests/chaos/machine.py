"""What is killed, a server that keeps what it has acknowledged and workers; and who kills them, by the seed.

A worker that takes the place of another one is of this version or, where a run mixes them, of one to come. It runs on a
host of a new name, as a container that is recreated on the same volume does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.support import faults, launch
from tests.support.servers import Server
from worker.process.launch import stop_signals_wait

CONSTANTS = {
    "worker.SWEEP_S": 1.0,
    "tasks.SILENT_MS": 2500,
    "tasks.QUEUED_MS": 8000,
    "tasks.RUNNING_MARGIN_MS": 8000,
}
SILENT_S = CONSTANTS["tasks.SILENT_MS"] / 1000
POOLS = ("solo", "prefork")
DIE = 60  # a process kills itself at one commit in so many, where it hurts most


class Workers:
    """Two workers, one of each pool, with clocks that fit a test; `newer_share` of them is of a version to come."""

    def __init__(self, url: str, directory: Path, seed: int, tally: Counter[str], newer_share: float) -> None:
        self._url = url
        self._newer_share = newer_share
        self._rng = Random(f"{seed}|versions")
        self._tally = tally
        self._hosts = 0
        self._logs = [directory / f"worker-{pool}.log" for pool in POOLS]
        self._processes = [self._spawn(place, DIE) for place in range(len(POOLS))]

    def _spawn(self, place: int, die: int) -> subprocess.Popen[bytes]:
        newer = bool(die) and self._rng.random() < self._newer_share
        self._tally["of a version to come" if newer else "of this version"] += 1
        self._hosts += 1
        command = launch.command(CONSTANTS, pool=POOLS[place], die=die, newer=newer, host=f"host-{self._hosts}")
        with stop_signals_wait():
            return faults.spawn(command, self._url, self._logs[place], PLANNER_CLAIM_IDLE_S="2")

    def kill(self, place: int, die: int = DIE) -> None:
        """Kill a worker with all of its processes, and start another in its place."""
        faults.kill(self._processes[place])
        self._processes[place] = self._spawn(place, die)

    def calm_down(self) -> None:
        """Kill every worker for the last time: those that follow do not die by themselves."""
        for place in range(len(POOLS)):
            self.kill(place, die=0)

    def stall(self, place: int, seconds: float) -> None:
        """Stop a worker for a while; it does not notice but by the clock."""
        os.killpg(self._processes[place].pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.killpg(self._processes[place].pid, signal.SIGCONT)

    def replace_the_dead(self) -> None:
        """Start others in place of workers that killed themselves; raises if one ended in another way."""
        for place, process in enumerate(self._processes):
            code = process.poll()
            if code == -signal.SIGKILL:
                self.kill(place)
            elif code is not None:
                raise AssertionError(f"a worker ended by itself with {code}")

    def stop(self) -> list[int]:
        """Ask the workers to end; returns their exit codes."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in self._processes]

    def kill_all(self) -> None:
        """Kill what is still there."""
        for process in self._processes:
            faults.kill(process)

    def logged(self, event: str) -> int:
        """Count what was logged under this name."""
        return sum(log.read_bytes().count(b'"event":"%s"' % event.encode()) for log in self._logs)


class Killer(threading.Thread):
    """Kills workers every few seconds, and the server now and then, in the order of the seed."""

    def __init__(self, server: Server, workers: Workers, seed: int, seconds: float, tally: Counter[str]) -> None:
        super().__init__(name="killer", daemon=True)
        self._server, self._workers, self._tally = server, workers, tally
        self._rng = Random(f"{seed}|kills")
        self._until = time.monotonic() + seconds
        self._over = threading.Event()
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """End it early: nobody may be started once the test is over."""
        self._over.set()
        self.join()

    def run(self) -> None:
        """Go on until the time is over; whatever fails here is a failure of the test."""
        try:
            while time.monotonic() < self._until and not self._over.is_set():
                self._wait(self._rng.uniform(2.5, 6))
                self._strike()
            self._workers.calm_down()
        except BaseException as error:
            self.failure = error

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._over.wait(0.1):
            self._workers.replace_the_dead()

    def _strike(self) -> None:
        place, what = self._rng.randrange(len(POOLS)), self._rng.random()
        if what < 0.15:
            self._tally["Redis killed"] += 1
            self._server.kill()
            time.sleep(self._rng.uniform(0, 1.5))
            self._server.start()
        elif what < 0.25:
            self._tally["workers stalled"] += 1
            self._workers.stall(place, SILENT_S + 1)
        else:
            self._tally["workers killed"] += 1
            self._workers.kill(place)
