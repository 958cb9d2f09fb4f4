"""What attempts used is learned on a real server, whichever way plans are made."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tasks.rules.estimates import FEWEST
from tests.support.engine import container, drain, plan
from tests.support.stored import P0, QUEUE
from worker.engine.goal_batch import GoalBatch

STEP = {"step_id": "patch", "title": "t", "intent": "i", "allowed_files": ["a.py"]}


def specs(redis: Redis) -> list[dict[str, Any]]:
    found: Any = redis.xrange(QUEUE)
    return [codec.loads(fields[b"data"]) for _, fields in found]


@pytest.mark.parametrize("way", ["together", "alone"])
def test_a_plan_reserves_what_attempts_before_it_used(
    way: str, redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "alone":
        monkeypatch.setattr(GoalBatch, "plan", lambda _, entries: list(entries))
    with container(redis_url) as here:
        plan(here, redis, *({"goal": "x", "allowed_files": ["a.py"], "steps": [STEP]} for _ in range(FEWEST)))
        for number, spec in enumerate(specs(redis)):
            assert spec["estimate"]["tokens"] == 60_000
            named = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
            said = {"success": True, "touched_files": ["a.py"], "metrics": {"tokens_used": 1000 * number}}
            redis.xadd(P0.outcomes, {"data": codec.dumps({**named, **said})})
        drain(here)

        plan(here, redis, {"goal": "x", "allowed_files": ["a.py"], "steps": [STEP]})

        (spec,) = specs(redis)
        assert spec["estimate"]["tokens"] == spec["limits"]["tokens"] == 1000 * (FEWEST // 2)
