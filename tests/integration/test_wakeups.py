"""Wake-ups under load: with more busy partitions than slots they do not pile up, and each partition has its turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.conftest import RunningWorker, wait_until
from tests.support.faults import consumes, kill, spawn
from tests.support.messages import read_specs
from worker.bench import fleet
from worker.engine.admission import fresh_plan_id
from worker.process.launch import worker_command
from worker.store import keys
from worker.store.keys import Partition, partition_of

pytestmark = pytest.mark.outages

MANY, SLOTS = 16, 2


def goals(partitions: int, each: int, steps: int) -> list[bytes]:
    """Make as many goals for each partition, by the repositories that they are about."""
    made: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    for number in range(10_000):
        repo = f"acme/shop-{number}"
        place = partition_of(fresh_plan_id(repo), partitions)
        if len(made[place]) < each:
            goal = codec.loads(fleet.goal(number, steps)) | {"context": {"repo": repo}}
            made[place].append(codec.dumps(goal))
    return [goal for found in made.values() for goal in found]


def applied(redis: Redis) -> list[int]:
    """Count the outcomes applied, by partition."""
    found: list[Any] = [redis.hget(Partition(number).stats, "applied") for number in range(MANY)]
    return [int(count or 0) for count in found]


def test_with_more_busy_partitions_than_slots_wakeups_do_not_pile_up_and_each_has_its_turn(
    redis_url: str, tmp_path: Path
) -> None:
    log, plans, steps = tmp_path / "worker.log", 2, 60
    command = worker_command(concurrency=SLOTS)
    process = spawn(command, redis_url, log, PLANNER_PARTITIONS=str(MANY))
    try:
        with Redis.from_url(redis_url) as redis:
            worker = RunningWorker(redis_url, redis, process, log)
            wait_until(lambda: process.poll() is not None or consumes(worker), 60, "worker consumes")
            for goal in goals(MANY, plans, steps):
                redis.xadd(keys.GOALS, {"data": goal})
            total, waiting, counts = MANY * plans * steps, [0], [[0] * MANY]

            def turn() -> bool:
                """Answer what waits in every partition, and look at what waits in the broker."""
                for number in range(MANY):
                    fleet.answer(redis, read_specs(redis, number))
                waiting.append(redis.llen("planner.outcomes"))
                counts.append(applied(redis))
                return sum(counts[-1]) == total

            wait_until(turn, timeout=120, what="all outcomes applied")

            # One for each; where CPU is short one may count as lost and be sent again. Piling up was hundreds.
            assert max(waiting) <= 2 * MANY
            halfway = next(each for each in counts if sum(each) >= total / 2)
            assert min(halfway) >= total / MANY / 8, halfway
            assert set(applied(redis)) == {plans * steps}
    finally:
        kill(process)
