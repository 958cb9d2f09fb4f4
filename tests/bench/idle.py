"""What a worker costs while nothing comes: CPU, connections, threads and commands, by its number of partitions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.bench.fleet import wait_for
from tests.bench.site import Site
from worker.store.keys import Partition

PARTITIONS = (1, 64, 256)
SETTLE_S = 10.0  # from owning everything until it is counted: each partition is compared and swept once
COUNTED_S = 20.0


def idle_figures(site: Site) -> dict[str, float]:
    """Measure a worker for each number of partitions; each begins with an empty server."""
    figures = dict[str, float]()
    for partitions in PARTITIONS:
        site.say(f"Idle with partitions: {partitions}")
        site.client.flushdb()
        with site.workers(1, partitions) as workers:
            wait_for(lambda owners=partitions: _owned(site) == owners, 120)
            time.sleep(SETTLE_S)
            figures |= {f"{name}_{partitions}": figure for name, figure in _count(site, workers).items()}
    site.client.flushdb()
    return figures


def _owned(site: Site) -> int:
    return sum(site.client.exists(Partition(number).owner) for number in range(max(PARTITIONS)))


def _count(site: Site, workers: tuple[int, ...]) -> dict[str, float]:
    """Count for COUNTED_S; the connections are those of the worker with its pool and its broker."""
    before, began = site.usage(workers), time.monotonic()
    commands = _commands(site)
    time.sleep(COUNTED_S)
    took = time.monotonic() - began
    after = site.usage(workers)
    (pid,) = workers
    return {
        "idle_worker_core": (after.worker - before.worker) / took,
        "idle_server_core": (after.server - before.server) / took,
        "idle_commands_per_s": (_commands(site) - commands) / took,
        "idle_connections": float(len(site.client.client_list()) - 1),  # without the own one
        "idle_threads": float(sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())),
    }


def _commands(site: Site) -> int:
    info: Any = site.client.info("stats")
    return int(info["total_commands_processed"])
