"""Where a run of the benchmark takes place, and the worker processes that it starts there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from redis import Redis

from tests.bench import cpu
from tests.bench.cpu import Cpu
from tests.bench.fleet import goal, wait_for
from tests.bench.wire import Wire, pack
from worker.store.keys import GOALS, Partition

FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything a run does."""

    plans: int = 1000
    steps: int = 10
    warm_up: int = 20  # plans that are worked off first: what is imported when it is first needed belongs to none
    tasks: int = 4000  # of Celery that do nothing
    pings: int = 500
    idle_pings: int = 40
    steps_of_plans: tuple[int, ...] = (10, 100, 1000, 10_000)
    least_outcomes: int = 4800  # of each of these
    live_plans: tuple[int, ...] = (10_000, 100_000)
    heartbeats: int = 20_000
    flood: int = 10_000  # goals of one tenant


@dataclass(frozen=True, slots=True)
class Site:
    """A server, the pool of the workers on it, and who hears what is done."""

    client: Redis
    url: str
    pool: str
    say: Say
    sizes: Sizes = field(default_factory=Sizes)

    @contextmanager
    def workers(self, count: int = 1, partitions: int = 1, app: str = "worker") -> Iterator[tuple[int, ...]]:
        """Run worker processes of `app`; yields their pids.

        What they know of commits is kept for themselves, since the server was emptied after those before them.
        """
        with ExitStack() as stack:
            known = stack.enter_context(tempfile.TemporaryDirectory(prefix="planner-bench-"))
            variables = {
                **os.environ,
                "PLANNER_REDIS_URL": self.url,
                "PLANNER_PARTITIONS": str(partitions),
                "PLANNER_STATE_DIR": known,
                "PLANNER_LOG_LEVEL": "ERROR",
                "PYTHONWARNINGS": "ignore",
            }
            yield tuple(stack.enter_context(self._worker(app, number, variables)) for number in range(count))

    @contextmanager
    def _worker(self, app: str, number: int, variables: dict[str, str]) -> Iterator[int]:
        name = ("--hostname", f"bench-{os.getpid()}-{number}@%h")
        command = [sys.executable, "-m", "celery", "-A", app, "worker", "-P", self.pool, "-c", "1", *name, *FLAGS]
        process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)

    def submit(self, goals: list[bytes], partitions: int = 1) -> None:
        """Publish goals, and wait until all are planned."""
        homes = [Partition(number) for number in range(partitions)]

        def planned() -> int:
            return sum(self.client.zcard(home.plans) for home in homes)

        wanted = planned() + len(goals)
        with Wire(self.client) as wire:
            wire.ask(b"".join([pack("XADD", GOALS, "*", "data", goal) for goal in goals]), len(goals))
        wait_for(lambda: planned() == wanted and not self.client.xlen(GOALS), pause_s=0.01)

    def submit_new(
        self, plans: int, steps: int, chains: int = 1, partitions: int = 1, *, names_repository: bool = False
    ) -> None:
        """Publish goals whose ids were not used on this server, and wait until all are planned."""
        numbers = range(first := self._goals_published(), first + plans)
        goals = [goal(number, steps, chains, names_repository=names_repository) for number in numbers]
        self.submit(goals, partitions)

    def _goals_published(self) -> int:
        info: Any = self.client.xinfo_stream(GOALS) if self.client.exists(GOALS) else {"entries-added": 0}
        return int(info["entries-added"])

    def usage(self, workers: tuple[int, ...]) -> Cpu:
        """Read the CPU used so far."""
        return cpu.usage(self.client, *workers)
