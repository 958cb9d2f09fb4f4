"""Ninety days of sums as commits leave them, on a server that has run no plan."""

from __future__ import annotations

import math
import time
from random import Random
from typing import Any

from redis import Redis

from tasks.base.series import series_name
from worker.store.keys import Partition
from worker.store.sums import PERIODS

RULES = ("budget", "identical_failure", "wall_clock", "security", "manual", "lease_deaths")


def seed(redis: Redis, repositories: list[tuple[str, str | None]], days: int = 90, partition: int = 0) -> None:
    """Write sums of every hour and day of `days`, some of them empty; each repository has its own size."""
    random, now = Random(7), int(time.time() * 1000)
    pipeline: Any = redis.pipeline(transaction=False)
    sums: dict[tuple[str, int, str], dict[str, int]] = {}
    for place, owner in enumerate(repositories):
        for hour in range(24 * days):
            at = now - 3_600_000 * hour
            busy = 6 * (1 + math.sin(hour / 24 * 2 * math.pi)) / (1 + place) * random.random()
            if (count := int(busy * 3)) == 0:
                continue
            added = {"completed": count, "tokens": count * random.randint(20_000, 90_000), "steps": 6 * count}
            added |= {"cost": count * random.randint(50_000, 900_000), "failures": random.randint(0, count)}
            if random.random() < 0.4:
                added[f"halted:{random.choice(RULES)}"] = random.randint(1, 3)
            added |= {"cancelled": 1} if random.random() < 0.05 else {}
            for period, ms in PERIODS.items():
                known = sums.setdefault((period, at // ms, series_name(*owner)), {})
                for name, figure in added.items():
                    known[name] = known.get(name, 0) + figure
    for (period, number, name), figures in sums.items():
        text = " ".join(f"{what}={figure}" for what, figure in figures.items() if figure)
        pipeline.hset(Partition(partition).sums(period, number), name, text)
    pipeline.execute()
