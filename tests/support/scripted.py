"""Controllers that follow a script over the real queues: they answer every step until the plan has ended."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from redis import Redis

from schemas import codec
from schemas.plan import PlanView
from tests.conftest import wait_until
from worker.store import keys, queries
from worker.store.keys import CONTROLLERS, Partition

HOME = Partition(0)
ENDED = frozenset({"COMPLETED", "HALTED", "REJECTED"})

Spec = dict[str, Any]
Says = Callable[[Spec], Mapping[str, Any]]  # spec -> what its outcome says; {} is a success


class Fleet:
    """Controllers of `queues`, for one plan at a time; `specs` are all that came, in order."""

    def __init__(self, redis: Redis, *queues: str) -> None:
        self.redis, self.queues, self.specs = redis, queues or (f"q-{uuid.uuid4().hex[:8]}",), list[dict[str, Any]]()

    def submit(self, goal: Mapping[str, Any], patience_s: float = 60.0) -> tuple[str, str]:
        """Publish a goal and wait for its verdict; returns that and the plan's id."""
        goal_id = f"goal-{uuid.uuid4().hex}"
        self.redis.xadd(keys.GOALS, {"data": codec.dumps({"queue": self.queues[0], **goal, "goal_id": goal_id})})
        found: Any = wait_until(lambda: self.verdict(goal_id), timeout=patience_s, what=f"the verdict of {goal_id}")
        return found.verdict.value, found.plan_id

    def verdict(self, goal_id: str) -> Any:
        """Return the answer to a goal; None while it is PENDING."""
        found = queries.goal(self.redis, goal_id)
        return found if found and found.verdict != "PENDING" else None

    def view(self, plan_id: str) -> PlanView:
        found = queries.plan(self.redis, 1, plan_id)
        assert found is not None
        return found

    def order(self, plan_id: str, command: str, value: Any = None) -> None:
        body = {"command_id": uuid.uuid4().hex, "command": command, "scope": "plan", "plan_id": plan_id}
        said = {**body, "actor": "ada", "reason": "why", **({"value": value} if value is not None else {})}
        self.redis.xadd(HOME.commands, {"data": codec.dumps(said)})

    def work(self, plan_id: str, says: Says, until: Callable[[PlanView], bool] | None = None) -> PlanView:
        """Answer every step of the plan until it has ended, or until that holds; returns it as it is then."""

        def over() -> PlanView | None:
            for spec in self._read():
                self.answer(spec, says(spec))
            view = self.view(plan_id)
            return view if view.state in ENDED or (until and until(view)) else None

        found: Any = wait_until(over, timeout=60, what=f"the end of {plan_id}")
        return cast("PlanView", found)

    def answer(self, spec: dict[str, Any], said: Mapping[str, Any]) -> None:
        self.specs.append(spec)
        own = {name: spec[name] for name in ("step_id", "plan_id", "attempt", "lease")}
        metrics = {"tokens_used": 100, "patch_cycles": int(spec["mode"] == "patch"), "duration_ms": 1}
        body = {"success": True, "metrics": metrics, "diff_hash": uuid.uuid4().hex[:12], **said, **own}
        self.redis.xadd(spec["reply_to"], {"data": codec.dumps(body)})

    def _read(self) -> Iterator[dict[str, Any]]:
        for queue in self.queues:
            stream = HOME.steps(queue)
            if not self.redis.exists(stream):
                continue
            found: Any = self.redis.xreadgroup(CONTROLLERS, "scripted", {stream: ">"}, count=64)
            for _, fields in [pair for _, entries in found or () for pair in entries]:
                yield codec.loads(fields[b"data"])
