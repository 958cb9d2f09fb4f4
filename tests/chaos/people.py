"""Who publishes the goals, and the operator who approves, pauses, resumes and halts; both say things twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from schemas import codec
from tests.chaos import goals
from tests.support.recount import ENDED
from worker.store import keys
from worker.store.keys import Partition

HOME = Partition(0)


class People(threading.Thread):
    """Publishes `count` goals over `seconds`, every tenth twice, and looks after their plans until told to end."""

    def __init__(self, url: str, seed: int, count: int, seconds: float, tally: Counter[str]) -> None:
        super().__init__(name="people", daemon=True)
        self._url, self._seed, self._count, self._tally = url, seed, count, tally
        self._pace = seconds / count
        self._began = time.monotonic()
        self._published = 0
        self._rng = Random(f"{seed}|people")
        self._said: Counter[str] = Counter()
        self._over = threading.Event()
        self._cared: list[str] = []

    def finish(self) -> None:
        """Ask the thread to end."""
        self._over.set()
        self.join()

    @property
    def done(self) -> bool:
        """Whether every goal is published."""
        return self._published == self._count

    def run(self) -> None:
        """Do the round of everything, whatever the server does."""
        while not self._over.wait(0.1):
            try:
                with Redis.from_url(self._url, protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=5) as client:
                    while not self._over.wait(0.1):
                        self._publish(client)
                        for goal_id in list(self._cared):
                            self._look_after(client, goal_id)
            except RedisError:
                self._tally["connections lost"] += 1

    def _publish(self, client: Redis) -> None:
        due = min(self._count, int((time.monotonic() - self._began) / self._pace) + 1)
        while self._published < due:
            goal = goals.goal(self._published, self._seed)
            for _ in range(2 if self._rng.random() < 0.1 else 1):
                client.xadd(keys.GOALS, {"data": codec.dumps(goal)})
            if goal["goal_id"].endswith(("approved", "paused", "halted")):
                self._cared.append(goal["goal_id"])
            self._published += 1

    def _look_after(self, client: Redis, goal_id: str) -> None:
        found: Any = client.hget(keys.goal_id(goal_id), "plan_id")
        if not found:
            return
        plan_id = found.decode()
        stored: Any = client.hmget(HOME.plan(plan_id).plan, "state", "live")
        state, live = stored
        if state and state.decode() in ENDED:
            self._cared.remove(goal_id)
        elif live:
            self._order_about(client, goal_id, plan_id, codec.loads(live))

    def _order_about(self, client: Redis, goal_id: str, plan_id: str, live: dict[str, Any]) -> None:
        kind, done = goal_id.rpartition("-")[2], live["counts"].get("DONE", 0)
        if kind == "approved":
            for step_id in live.get("waits", ()):
                self._say(client, goal_id, "approve", plan_id, step_id)
        elif kind == "halted" and done >= 5:
            self._say(client, goal_id, "halt", plan_id)
        elif kind == "paused" and done >= 5 and not self._said[f"{goal_id}-pause"]:
            self._say(client, goal_id, "pause", plan_id)
        elif kind == "paused" and live.get("paused"):
            self._say(client, goal_id, "resume", plan_id)

    def _say(self, client: Redis, goal_id: str, what: str, plan_id: str, step_id: str | None = None) -> None:
        name = f"{goal_id}-{what}" + (f"-{step_id}" if step_id else "")
        if self._said[name] > 2:
            return
        order = {
            "command_id": name,
            "command": what,
            "scope": "step" if step_id else "plan",
            "plan_id": plan_id,
            "step_id": step_id,
            "actor": "chaos",
            "reason": "the seed says so",
        }
        client.xadd(HOME.commands, {"data": codec.dumps(order)})
        self._said[name] += 1
        self._tally["orders sent"] += 1
