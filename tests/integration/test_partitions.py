"""Several partitions: a plan's id says where it lives, and an outcome in the wrong place finds its way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redis import Redis

from schemas import codec
from tests.conftest import running_worker, wait_until
from worker.bench import fleet
from worker.store import keys
from worker.store.keys import CONTROLLERS, Partition, partition_of

PARTITIONS = 3


def read(redis: Redis, number: int) -> list[dict[str, Any]]:
    """Read the specs of one partition."""
    queue = Partition(number).steps("default")
    if not redis.exists(queue):
        return []
    reply: Any = redis.xreadgroup(CONTROLLERS, "fleet", {queue: ">"}, count=100)
    return [codec.loads(fields[b"data"]) for _, found in reply or () for _, fields in found]


def completed(redis: Redis) -> int:
    """Count the plans that are COMPLETED, wherever they live."""
    ids: list[Any] = [i for n in range(PARTITIONS) for i in redis.zrange(Partition(n).plans, 0, -1)]
    homes = [Partition(partition_of(i.decode(), PARTITIONS)).plan(i.decode()).plan for i in ids]
    return sum(redis.hget(home, "state") == b"COMPLETED" for home in homes)


def test_plans_spread_over_partitions_and_misplaced_outcomes_are_forwarded(redis_url: str, tmp_path: Path) -> None:
    with (
        Redis.from_url(redis_url) as redis,
        running_worker(redis_url, tmp_path / "worker.log", PLANNER_PARTITIONS=str(PARTITIONS)),
    ):
        for number in range(18):
            goal = codec.loads(fleet.goal(number, 2)) | {"context": {"repo": f"acme/shop-{number}"}}
            redis.xadd(keys.GOALS, {"data": codec.dumps(goal)})

        def turn() -> bool:
            """Answer what waits, always to the partition beside the right one."""
            for number in range(PARTITIONS):
                specs = read(redis, number)
                astray = Partition((number + 1) % PARTITIONS).outcomes
                fleet.answer(redis, [{**spec, "reply_to": astray} for spec in specs])
            return completed(redis) == 18

        wait_until(turn, timeout=60, what="all plans COMPLETED")

        used = [redis.zcard(Partition(number).plans) for number in range(PARTITIONS)]
        assert sum(used) == 18
        assert all(used)
