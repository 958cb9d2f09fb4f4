"""Wake-ups under load: with more busy partitions than slots they do not pile up, and each partition has its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import fleet
from tests.conftest import RunningWorker, connect, wait_until
from tests.support.faults import consumes, kill, spawn
from tests.support.messages import goals_of_partitions, read_specs
from tests.support.stored import applied
from worker.process.launch import worker_command
from worker.store import keys

pytestmark = pytest.mark.outages

MANY, SLOTS = 16, 2


@pytest.mark.long
def test_with_more_busy_partitions_than_slots_wakeups_do_not_pile_up_and_each_has_its_turn(
    redis_url: str, tmp_path: Path
) -> None:
    log, plans, steps = tmp_path / "worker.log", 2, 400  # so many that each slot goes round several times
    command = worker_command(concurrency=SLOTS)
    process = spawn(command, redis_url, log, PLANNER_PARTITIONS=str(MANY))
    try:
        with connect(redis_url) as redis:
            worker = RunningWorker(redis_url, redis, process, log)
            wait_until(lambda: process.poll() is not None or consumes(worker), 60, "worker consumes")
            for goal in goals_of_partitions(MANY, plans, steps):
                redis.xadd(keys.GOALS, {"data": goal})
            total, waiting, counts = MANY * plans * steps, [0], [[0] * MANY]

            def turn() -> bool:
                """Answer what waits in every partition, and look at what waits in the broker."""
                for number in range(MANY):
                    fleet.answer(redis, read_specs(redis, number))
                waiting.append(redis.llen("planner.outcomes"))
                counts.append(applied(redis, MANY))
                return sum(counts[-1]) == total

            wait_until(turn, timeout=300, what="all outcomes applied")

            # One for each; where CPU is short one may count as lost and be sent again. Piling up was hundreds.
            assert max(waiting) <= 2 * MANY
            halfway = next(each for each in counts if sum(each) >= total / 2)
            assert min(halfway) >= total / MANY / 8, halfway
            assert set(applied(redis, MANY)) == {plans * steps}
    finally:
        kill(process)
