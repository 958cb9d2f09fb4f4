"""The messages of producers and controllers over the streams of a real server: goals, outcomes and step specs."""

from __future__ import annotations

from typing import Any

from redis import Redis

from schemas import codec
from tests.bench import fleet
from tests.conftest import wait_until
from tests.support.stored import P0, QUEUE
from worker.engine.admission import fresh_plan_id
from worker.store import keys
from worker.store.keys import CONTROLLERS, Partition, partition_of


def publish(redis: Redis, goal: dict[str, Any] | bytes, **beside: Any) -> str:
    fields: Any = {"data": goal if isinstance(goal, bytes) else codec.dumps(goal), **beside}
    entry: Any = redis.xadd(keys.GOALS, fields)
    return str(entry.decode())


def answer(spec: dict[str, Any], **said: Any) -> dict[str, bytes]:
    """A success of this attempt, unless `said` has it otherwise."""
    named = {name: spec[name] for name in ("step_id", "plan_id", "attempt", "lease")}
    return {"data": codec.dumps({**named, "success": True, "touched_files": spec["allowed_files"], **said})}


def specs(redis: Redis) -> list[dict[str, Any]]:
    """Return the specs in the queue, both read and unread ones."""
    found: Any = redis.xrange(QUEUE)
    return [codec.loads(fields[b"data"]) for _, fields in found]


def work(redis: Redis, count: int = 1000) -> int:
    """Do a fleet's work once: read the new specs, and report success for each."""
    found: Any = redis.xreadgroup(CONTROLLERS, "fleet", {QUEUE: ">"}, count=count) if redis.exists(QUEUE) else []
    read = [codec.loads(fields[b"data"]) for _, entries in found or () for _, fields in entries]
    for spec in read:
        report(redis, answer(spec))
    return len(read)


def report(redis: Redis, fields: Any) -> str:
    """Publish an outcome entry with any fields; return its id."""
    entry: Any = redis.xadd(P0.outcomes, fields)
    return str(entry.decode())


def verdict_of(redis: Redis, goal_id: str) -> dict[bytes, bytes]:
    """Wait for the verdict of a goal, and return it."""

    def answered() -> dict[bytes, bytes]:
        found: Any = redis.hgetall(keys.goal_id(goal_id))
        return found if found and found[b"verdict"] != b"PENDING" else {}

    return wait_until(answered, what=f"verdict of {goal_id}")


def publish_all(redis: Redis, goals: list[bytes]) -> list[str]:
    """Publish goals and wait until each has its plan; returns the plans."""
    known = redis.zcard(P0.plans)
    pipeline = redis.pipeline(transaction=False)
    for goal in goals:
        pipeline.xadd(keys.GOALS, {"data": goal})
    pipeline.execute()
    wait_until(lambda: redis.zcard(P0.plans) == known + len(goals), timeout=90, what="planned")
    wait_until(lambda: not redis.xlen(keys.GOALS), timeout=90, what="goals answered")
    plans: Any = redis.zrange(P0.plans, known, -1)
    return [plan.decode() for plan in plans]


def read_specs(redis: Redis, number: int) -> list[dict[str, Any]]:
    """Read the specs of one partition."""
    queue = Partition(number).steps("default")
    if not redis.exists(queue):
        return []
    reply: Any = redis.xreadgroup(CONTROLLERS, "fleet", {queue: ">"}, count=100)
    return [codec.loads(fields[b"data"]) for _, found in reply or () for _, fields in found]


def goals_of_partitions(partitions: int, each: int, steps: int) -> list[bytes]:
    """Make as many goals for each partition, by the repositories that they are about."""
    made: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    for number in range(10_000):
        repo = f"acme/shop-{number}"
        place = partition_of(fresh_plan_id(repo), partitions)
        if len(made[place]) < each:
            goal = codec.loads(fleet.goal(number, steps)) | {"context": {"repo": repo}}
            made[place].append(codec.dumps(goal))
    return [goal for found in made.values() for goal in found]
