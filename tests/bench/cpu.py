"""The CPU time that workers, their server and the fleet spend on an outcome.

Unlike wall times it hardly differs between runs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis

TICKS_S = os.sysconf("SC_CLK_TCK")


class Cpu(NamedTuple):
    """Seconds of CPU, in user and system mode together.

    The server's have in them what the fleet asks of it.
    """

    worker: float
    server: float
    fleet: float

    def us_each(self, before: Cpu, count: int) -> dict[str, float]:
        """Tell the microseconds since `before` for each of so many outcomes, or goals, as figures."""
        worker, server, fleet = ((now - then) * 1e6 / count for now, then in zip(self, before, strict=True))
        return {
            "worker_cpu_us": worker,
            "server_cpu_us": server,
            "cpu_us": worker + server,
            "fleet_cpu_us": fleet,
        }


def usage(client: Redis, *pids: int) -> Cpu:
    """Read the CPU used by the processes `pids` with their descendants, the server, and this process.

    It counts from their start. This process is the fleet.
    """
    info: Any = client.info("cpu")
    return Cpu(sum(map(_of_tree, pids)), info["used_cpu_user"] + info["used_cpu_sys"], time.process_time())


def _of_tree(root: int) -> float:
    """Add up the process `root`, its living descendants, and those that they have waited for; needs /proc."""
    parents: dict[int, int] = {}
    ended: dict[int, int] = {}  # ticks
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(stat.parent.name)
        parents[pid], ended[pid] = int(fields[1]), sum(map(int, fields[13:15]))
    used = 0.0
    for process, ticks in ended.items():
        pid = process
        while pid and pid != root:
            pid = parents.get(pid, 0)
        if pid == root:
            used += _of_process(process) + ticks / TICKS_S
    return used


def _of_process(pid: int) -> float:
    """Read the CPU clock of a process, which is exact where /proc counts in hundredths of a second."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # the number that clock_getcpuclockid(3) gives it on Linux
    except OSError:  # it has just ended
        return 0.0
