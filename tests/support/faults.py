"""Real processes that tests stop and kill: workers with short clocks, and the signals that they get."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.conftest import RunningWorker, connect, wait_until
from tests.support import launch

HASTE = {"worker.SWEEP_S": 0.5}  # what dead workers left is looked for more often than any test could wait
NO_OWNERS = {"worker.LEASE_MS": 1}  # the lease of a partition ends at once: all work goes to the pools
STREAMS = frozenset({"planner:goals", "planner:{0}:outcomes"})


def spawn(command: Sequence[str], url: str, log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start a worker in a process group of its own, so that its children die with it."""
    ours = {"PLANNER_REDIS_URL": url, "PLANNER_CLAIM_IDLE_S": "1", "PLANNER_STATE_DIR": str(log.parent)}
    variables = {**os.environ, **ours, **environment}
    with log.open("ab") as file:
        return subprocess.Popen(command, env=variables, stdout=file, stderr=file, start_new_session=True)


@contextmanager
def hasty_worker(
    url: str, broker: str, log: Path, pool: str = "solo", stop: str = "", **constants: float
) -> Iterator[RunningWorker]:
    """Run a worker on the store at `url` from when it consumes; `broker` is a server that no fault touches."""
    command = launch.command(
        {**HASTE, **{name.replace("__", "."): value for name, value in constants.items()}}, pool=pool, stop=stop
    )
    with connect(broker) as client:
        process = spawn(command, url, log, PLANNER_BROKER_URL=broker)
        worker = RunningWorker(url, client, process, log)
        try:
            wait_until(lambda: process.poll() is not None or consumes(worker), timeout=60, what="worker consumes")
            assert process.poll() is None, log.read_text()[-3000:]
            yield worker
            assert process.poll() is None, f"the worker has ended with {process.returncode}: {log.read_text()[-3000:]}"
        finally:
            kill(process)


def consumes(worker: RunningWorker) -> bool:
    """Return whether a worker has begun to watch its streams."""
    return {record["stream"] for record in worker.logged("ingress consumes")} >= STREAMS


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its children at once; two threads may call this at the same time."""
    if process.poll() is None:
        with suppress(ProcessLookupError):  # `poll` returns None while another thread waits for the process
            os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def children(pid: int) -> list[int]:
    """List the processes whose parent is `pid`."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
