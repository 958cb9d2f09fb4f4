"""What every story of the demo is told with: acts, goals and orders sent, plans followed to their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from redis import Redis

from schemas import codec
from schemas.base import GoalVerdict, PlanState
from schemas.command import Command
from schemas.goal import Goal
from schemas.plan import GoalAnswer, PlanView
from tasks.base.errors import PlannerError
from worker.demo.audience import Audience
from worker.demo.fleet import Fleet
from worker.demo.scene import Act, Scene
from worker.demo.watch import Watch
from worker.store import keys, queries
from worker.store.keys import Partition, partition_of

T = TypeVar("T")

DEADLINE_S = 90.0
TICK_S = 0.1


class DemoFailed(PlannerError):
    """The demo did not end as it should."""


class Stage:
    """Where a story is played; `queue` is read by its fleet alone."""

    def __init__(
        self, scene: Scene, audience: Audience, fleet: Fleet, client: Redis, partitions: int, queue: str
    ) -> None:
        self.scene, self.fleet, self.queue = scene, fleet, queue
        self._audience, self._client, self._partitions = audience, client, partitions

    def home(self, name: str) -> Path:
        """Name a place in the demo's directory."""
        return self.scene.home / name

    @contextmanager
    def act(self, title: str) -> Iterator[Act]:
        """Play one act: seen at its beginning, and with its result."""
        act = Act(title)
        self.scene.acts.append(act)
        self._audience.see(self.scene)
        yield act
        self._audience.see(self.scene)

    def send(self, goal: Goal) -> GoalAnswer:
        """Publish a goal and wait for its verdict."""
        goal_id = f"demo-{token_hex(8)}"
        message = goal.model_copy(update={"goal_id": goal_id})
        self._client.xadd(keys.GOALS, {"data": codec.encode(message, exclude_defaults=True)})
        return self.wait("the planner's answer to the goal", lambda: self._answer(goal_id))

    def answer(self, plan_id: str, value: Any, reason: str) -> None:
        """Answer what a plan asks, as `planner answer` does."""
        said = {"command": "answer", "scope": "plan", "plan_id": plan_id, "value": value}
        order = Command.model_validate({**said, "command_id": token_hex(8), "actor": "demo", "reason": reason})
        home = Partition(partition_of(plan_id, self._partitions))
        self._client.xadd(home.commands, {"data": codec.encode(order, exclude_none=True)})

    def follow(self, plan_id: str) -> PlanView:
        """Watch a plan to its end, which has to be COMPLETED."""
        view = self.wait("the end of the plan", self.watch(plan_id).look)
        if view.state is not PlanState.COMPLETED:
            raise DemoFailed(f"The plan ended as {view.state}: {view.halt and view.halt.reason}")
        return view

    def watch(self, plan_id: str) -> Watch:
        """Have the audience see this plan from now on."""
        if self.scene.watch is None or self.scene.watch.plan_id != plan_id:
            self.scene.watch = Watch(self._client, plan_id, self._partitions)
        return self.scene.watch

    def view(self, plan_id: str) -> PlanView | None:
        """Look at a plan."""
        return queries.plan(self._client, self._partitions, plan_id)

    def specs(self, plan_id: str) -> list[dict[str, Any]]:
        """Read the step specs that wait in our queue, as their controllers will."""
        home = Partition(partition_of(plan_id, self._partitions))
        found: Any = self._client.xrange(home.steps(self.queue))
        return [codec.loads(fields[b"data"]) for _, fields in found]

    def wait(self, what: str, probe: Callable[[], T | None]) -> T:
        """Wait until `probe` finds something; raises DemoFailed if that takes too long or a process has ended."""
        while not (found := probe()):
            if name := self.fleet.ended():
                raise DemoFailed(f"The process {name} ended while the demo waited for {what}.")
            if self.scene.seconds > DEADLINE_S:
                raise DemoFailed(f"After {DEADLINE_S:.0f} s the demo still waited for {what}.")
            if self.scene.watch:
                self.scene.watch.look()
            self._audience.see(self.scene)
            time.sleep(TICK_S)
        return found

    def _answer(self, goal_id: str) -> GoalAnswer | None:
        answer = queries.goal(self._client, goal_id)
        return answer if answer and answer.verdict is not GoalVerdict.PENDING else None
