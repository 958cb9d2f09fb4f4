"""The CPU time that a worker and its server spend on an outcome.

Unlike wall times it hardly differs between runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis

TICKS_S = os.sysconf("SC_CLK_TCK")


class Cpu(NamedTuple):
    """Seconds of CPU, in user and system mode together."""

    worker: float
    server: float

    def us_each(self, before: Cpu, outcomes: int) -> dict[str, float]:
        """Tell the microseconds since `before` for each of so many outcomes, as figures."""
        worker, server = ((now - then) * 1e6 / outcomes for now, then in zip(self, before, strict=True))
        return {"worker_cpu_us": worker, "server_cpu_us": server, "cpu_us": worker + server}


def usage(client: Redis, pid: int) -> Cpu:
    """Read the CPU used by the process `pid`, its descendants, and the server.

    It counts from their start.
    """
    info: Any = client.info("cpu")
    return Cpu(_of_tree(pid), info["used_cpu_user"] + info["used_cpu_sys"])


def _of_tree(root: int) -> float:
    """Add up the process `root`, its living descendants, and those that they have waited for; needs /proc."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(stat.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    used = 0
    for pid, count in ticks.items():
        while pid and pid != root:
            pid = parents.get(pid, 0)
        used += count if pid == root else 0
    return used / TICKS_S
