"""What is kept of a plan's goal, of which another plan can be made."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.stored import StepStatus
from schemas.stored.step import TEXTS, read_texts, unpack_step
from tasks.base.batches import batches
from tasks.features import goal_texts
from tasks.plan.snapshot import NOTE
from tasks.record.creation import planned_steps
from tasks.strategies.task.supplied import supply
from worker.store import history
from worker.store.keys import Partition, PlanKeys, partition_of

PAGE = 500
STEPS = "/steps"  # of a goal, as a pointer


class KeptGoal(NamedTuple):
    """What is kept of a plan's goal, as JSON; `left_out` are pointers to what is not."""

    body: dict[str, Any]
    left_out: tuple[str, ...]


def read(client: Redis, partitions: int, plan_id: str) -> KeptGoal:
    """Read what is kept of a plan's goal, with the steps that it brought along as they came.

    Of its log and documents that is what its steps were given.
    """
    k = Partition(partition_of(plan_id, partitions)).plan(plan_id)
    pipeline = client.pipeline(transaction=False)
    pipeline.hmget(k.plan, "goal", "left_out")
    pipeline.hget(k.steps, NOTE + goal_texts.NOTE)
    (raw, noted), texts = pipeline.execute()
    body: dict[str, Any] = codec.loads(raw or b"{}")
    if texts:
        body["context"] = {**body.get("context", {}), **codec.loads(texts)}
    left_out = tuple((noted or b"").decode().split())
    if STEPS in left_out and (brought := _brought_steps(client, k)):
        return KeptGoal({**body, "steps": brought}, tuple(each for each in left_out if each != STEPS))
    return KeptGoal(body, left_out)


def _brought_steps(client: Redis, k: PlanKeys) -> list[dict[str, Any]]:
    """Say the steps of a plan as its goal brought them along; empty where they cannot be told any more."""
    states: Any = client.hgetall(k.status)
    ids = sorted(states, key=lambda step: StepStatus.decode(states[step]).index)
    specs: dict[str, dict[str, Any]] = {}
    for names in batches(ids, PAGE):
        found: Any = client.hmget(k.steps, [TEXTS, *names])
        texts = read_texts(found[0])
        specs |= {name.decode(): unpack_step(raw, texts) for name, raw in zip(names, found[1:], strict=True) if raw}
    if len(specs) < len(ids):
        return []
    return [supply(step) for step in planned_steps(specs, list(history.read_lines(client, k)))]
