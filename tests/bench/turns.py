"""How long a tenant's goal takes while another tenant floods the planner, beside the same without the flood."""

from __future__ import annotations

import time
from statistics import quantiles
from typing import Any

from redis import Redis

from schemas import codec
from tests.bench.fleet import wait_for
from worker.store import keys

COLD = 200
PAGE = 500  # goals that are on their way together


def goal_latency_ms(client: Redis, flood: int) -> dict[str, float]:
    """Measure the p99 of a goal from published to planned, ms, one at a time: alone, and behind `flood` others."""
    alone = _planned("cold", client)
    for first in range(0, flood, PAGE):
        pipeline = client.pipeline(transaction=False)
        for number in range(first, first + PAGE):
            pipeline.xadd(keys.GOALS, {"data": _goal("flood", number)})
        pipeline.execute()
    beside = _planned("late", client)
    if not client.xlen(keys.GOALS):
        raise RuntimeError("the flood was over before the goals that it was to hold up")
    return {"goal_p99_ms": quantiles(alone, n=100)[98], "goal_flood_p99_ms": quantiles(beside, n=100)[98]}


def _planned(tenant: str, client: Redis) -> list[float]:
    return [_wait_for_verdict(client, tenant, number) for number in range(COLD)]


def _wait_for_verdict(client: Redis, tenant: str, number: int) -> float:
    begin = time.perf_counter()
    client.xadd(keys.GOALS, {"data": _goal(tenant, number)})
    record = keys.goal_id(f"{tenant}-{number}", tenant)

    def is_planned() -> bool:
        verdict: Any = client.hget(record, "verdict")
        return verdict not in (None, b"PENDING")

    wait_for(is_planned)
    return 1000 * (time.perf_counter() - begin)


def _goal(tenant: str, number: int) -> bytes:
    files = [f"src/{tenant}_{number}.py"]
    return codec.dumps(
        {"goal_id": f"{tenant}-{number}", "tenant": tenant, "goal": "Measure the planner", "allowed_files": files}
    )
