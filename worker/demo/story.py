"""What happens in the demo, from the tests that fail to the tests that pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from redis import Redis

from schemas import codec
from schemas.base import PlanState
from schemas.goal import Goal
from schemas.plan import GoalAnswer, PlanView
from tasks.errors import PlannerError
from worker.cli import goals, junit
from worker.demo import repository
from worker.demo.audience import Audience
from worker.demo.example import OUTSIDE, SOURCE
from worker.demo.fleet import Fleet
from worker.demo.scene import Act, Scene
from worker.demo.watch import Watch, reason
from worker.store import keys, queries

T = TypeVar("T")

DEADLINE_S = 50.0
TICK_S = 0.1


class DemoFailed(PlannerError):
    """The demo did not end as it should."""


class Story:
    """The acts of the demo in their order."""

    def __init__(
        self, scene: Scene, audience: Audience, fleet: Fleet, client: Redis, partitions: int, queue: str
    ) -> None:
        self._scene, self._audience, self._fleet = scene, audience, fleet
        self._client, self._partitions, self._queue = client, partitions, queue
        self._root = scene.home / "billing"

    def play(self) -> None:
        """Play all acts; raises DemoFailed at the first that does not come to its end."""
        base = self._make_repository()
        self._start_fleet()
        goal = self._goal(self._run_tests(), base)
        plan_id = self._submit(goal)
        self._refuse(goal)
        self._follow(plan_id)
        self._check(base, f"planner/{plan_id}")

    def _make_repository(self) -> str:
        with self._act("A git repository with a bug") as act:
            base = repository.make(self._root)
            act.result = f"{SOURCE}, commit {base[:7]}"
        return base

    def _start_fleet(self) -> None:
        with self._act("A Celery worker and two controllers") as act:
            self._fleet.start_worker()
            self._fleet.start_controllers(self._root, self._queue)
            act.result = "with a scripted agent that guesses first"

    def _run_tests(self) -> Path:
        with self._act("pytest, as CI runs it") as act:
            ran = repository.run_tests(self._root, self._scene.home / "report.xml")
            if not ran.failed:
                raise DemoFailed(f"pytest found no failing test (exit code {ran.exit_code}).")
            act.result = f"{ran.failed} of {ran.tests} tests fail"
        return ran.report

    def _goal(self, report: Path, base: str) -> Goal:
        """Make the goal as `planner submit --from-junit` does; what may be changed is always said by a person."""
        options = {"allowed_files": [SOURCE], "queue": self._queue, "base_sha": base, "repo": "billing"}
        body = goals.with_options(goals.with_report({}, junit.read(report.read_bytes())), options)
        return Goal.model_validate(body)

    def _submit(self, goal: Goal) -> str:
        with self._act("A goal from the JUnit report") as act:
            answer = self._send(goal)
            act.result = f"{answer.verdict}: {answer.plan_id}"
        return answer.plan_id

    def _refuse(self, goal: Goal) -> None:
        with self._act(f"The same goal, with {OUTSIDE}") as act:
            answer = self._send(goal.model_copy(update={"allowed_files": (*goal.allowed_files, OUTSIDE)}))
            view = self._wait("the rejected plan", lambda: self._view(answer.plan_id))
            self._scene.rejected = view
            if view.state is not PlanState.REJECTED:
                raise DemoFailed(f"A goal that reaches outside the repository became {view.state}, not REJECTED.")
            act.result = f"{view.state}: {reason(view)}"

    def _follow(self, plan_id: str) -> None:
        with self._act("The fleet at work") as act:
            watch = self._scene.watch = Watch(self._client, plan_id, self._partitions)
            view = self._wait("the end of the plan", watch.look)
            if view.state is not PlanState.COMPLETED:
                raise DemoFailed(f"The plan ended as {view.state}: {view.halt and view.halt.reason}")
            act.result = f"{view.state}: {len(watch.outcomes)} attempts at {len(view.steps)} steps"

    def _check(self, base: str, branch: str) -> None:
        with self._act("pytest on the plan's branch") as act:
            self._scene.diff = repository.diff(self._root, base, branch)
            checkout = self._scene.home / "checkout"
            repository.check_out(self._root, branch, checkout)
            ran = repository.run_tests(checkout, self._scene.home / "report-after.xml")
            self._scene.tests_passed = ran.passed
            if not (ran.passed and self._scene.diff):
                raise DemoFailed(f"On the plan's branch {ran.failed} of {ran.tests} tests fail.")
            act.result = f"all {ran.tests} tests pass"

    def _send(self, goal: Goal) -> GoalAnswer:
        goal_id = f"demo-{token_hex(8)}"
        message = goal.model_copy(update={"goal_id": goal_id})
        self._client.xadd(keys.GOALS, {"data": codec.encode(message, exclude_defaults=True)})
        return self._wait("the planner's answer to the goal", lambda: self._answer(goal_id))

    def _answer(self, goal_id: str) -> GoalAnswer | None:
        answer = queries.goal(self._client, goal_id)
        return answer if answer and answer.verdict != "PENDING" else None

    def _view(self, plan_id: str) -> PlanView | None:
        return queries.plan(self._client, self._partitions, plan_id)

    def _wait(self, what: str, probe: Callable[[], T | None]) -> T:
        while not (found := probe()):
            if name := self._fleet.ended():
                raise DemoFailed(f"The process {name} ended while the demo waited for {what}.")
            if self._scene.seconds > DEADLINE_S:
                raise DemoFailed(f"After {DEADLINE_S:.0f} s the demo still waited for {what}.")
            self._audience.see(self._scene)
            time.sleep(TICK_S)
        return found

    @contextmanager
    def _act(self, title: str) -> Iterator[Act]:
        act = Act(title)
        self._scene.acts.append(act)
        self._audience.see(self._scene)
        yield act
        self._audience.see(self._scene)
