"""A running demo: the steps of its story, and their parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from redis import Redis

from schemas import codec
from schemas.base import GoalVerdict, PlanState
from schemas.command import Command
from schemas.goal import Goal
from schemas.plan import GoalAnswer, PlanView
from worker.demo import repository
from worker.demo.fleet import DemoAgent, Fleet
from worker.demo.progress import PlanWatch, Progress, StoryStep
from worker.demo.render import Viewer
from worker.demo.story import Commit, DemoFailed, Story
from worker.store import keys, queries
from worker.store.keys import Partition, partition_of

T = TypeVar("T")

DEADLINE_S = 300.0  # a busy machine takes minutes instead of half a minute
AGENT_DEADLINE_S = 4 * 3600.0  # of an agent that asks a model
TICK_S = 0.1


@dataclass
class Session:
    """A story with its fleet and server; only this fleet reads `queue`."""

    story: Story
    progress: Progress
    viewer: Viewer
    fleet: Fleet
    client: Redis
    partitions: int
    queue: str
    agent: DemoAgent | None = None  # in place of the scripted one
    base: str = field(default="", init=False)  # the commit that its repository began with
    plan_id: str = field(default="", init=False)  # of the goal that was submitted last

    @property
    def root(self) -> Path:
        """The path of the demo's repository."""
        return self.place(self.story.repository)

    def place(self, name: str) -> Path:
        """Return a path in the demo's directory."""
        return self.progress.home / name

    @contextmanager
    def step(self, title: str) -> Iterator[StoryStep]:
        """Do one step of the demo, which is shown at its start and again with its result."""
        step = StoryStep(title)
        self.progress.steps.append(step)
        self.viewer.show(self.progress)
        yield step
        self.viewer.show(self.progress)

    def show_page(self, title: str, text: str) -> None:
        """Add a text with a title to the end of the demo's output."""
        self.progress.pages.append((title, text))

    # The steps of stories

    def make_repository(self, title: str, result: str, history: Sequence[Commit] = ()) -> None:
        """Create the repository from `history`, else from the story's commits; `{commit}` in `result` is replaced."""
        with self.step(title) as step:
            self.base = repository.make(self.root, history or self.story.commits)
            step.result = result.format(commit=self.base[:7])

    def start_fleet(self, result: str, **settings: str) -> None:
        """Start a worker with these environment variables, and two controllers."""
        with self.step("A Celery worker and two controllers") as step:
            self.fleet.start_worker(**settings)
            self.start_controllers()
            step.result = result

    def start_controllers(self) -> None:
        """Start the controllers, for the queues of the kind or for the demo's own."""
        queues = self.story.queues or (self.queue,)
        self.fleet.start_controllers(self.root, queues, self.progress.kind, self.agent)

    def submit(self, title: str, body: Mapping[str, Any]) -> None:
        """Submit a goal and wait for its verdict."""
        with self.step(title) as step:
            step.result = self.send_goal(body)

    def run_failing_tests(self, report: Path) -> None:
        """Run the repository's tests; some of them must fail."""
        with self.step("pytest, as CI runs it") as step:
            ran = repository.run_tests(self.root, report)
            if not ran.failed:
                raise DemoFailed(f"pytest found no failing test (exit code {ran.exit_code}).")
            step.result = f"{ran.failed} of {ran.tests} tests fail"

    def submit_rejected(self, title: str, body: Mapping[str, Any]) -> None:
        """Submit a goal that the planner must reject."""
        with self.step(title) as step:
            plan_id = self.send(body).plan_id
            view = self.progress.rejected = self.wait("the rejected plan", lambda: self.view(plan_id))
            if view.state is not PlanState.REJECTED:
                raise DemoFailed(f"A goal that reaches outside the repository became {view.state}, not REJECTED.")
            errors = view.halt.evidence.get("errors", ()) if view.halt else ()
            step.result = f"{view.state}: {', '.join(error['code'] for error in errors)}"

    def follow(self, result: str = "{state}: {outcomes} attempts at {steps} steps") -> PlanView:
        """Watch the plan to its end, which must be COMPLETED."""
        with self.step("The fleet at work") as step:
            view = self.end_of_plan()
            tried, outcomes = sum(step.attempt for step in view.steps), len(self.watch().outcomes)
            step.result = result.format(state=view.state, attempts=tried, outcomes=outcomes, steps=len(view.steps))
        return view

    def check_branch(self) -> None:
        """Check that the plan's branch has changes, and that its tests pass. Raises DemoFailed otherwise."""
        with self.step("pytest on the plan's branch") as step:
            checkout = self.place("checkout")
            repository.check_out(self.root, self.branch, checkout)
            step.result = f"all {self.test_branch(checkout)} tests pass"

    # What steps are made of

    @property
    def branch(self) -> str:
        """The name of the branch with the plan's changes."""
        return f"planner/{self.plan_id}"

    def context(self, **more: Any) -> dict[str, Any]:
        """Return the context of a goal: the repository, its commit, and `more`."""
        return {"repo": self.story.repository, "base_sha": self.base} | more

    def send_goal(self, body: Mapping[str, Any]) -> str:
        """Publish the goal whose plan is followed from now on. Returns its verdict in a few words."""
        answer = self.send(body)
        self.plan_id = answer.plan_id
        return f"{answer.verdict}: {answer.plan_id}"

    def send(self, body: Mapping[str, Any]) -> GoalAnswer:
        """Publish a goal for the demo's fleet and wait for its verdict."""
        goal_id = f"demo-{token_hex(8)}"
        queue = {} if self.story.queues else {"queue": self.queue}
        goal = Goal.model_validate({**body, **queue, "goal_id": goal_id})
        self.client.xadd(keys.GOALS, {"data": codec.encode(goal, exclude_defaults=True)})
        return self.wait("the planner's answer to the goal", lambda: self._verdict(goal_id, goal.tenant))

    def _verdict(self, goal_id: str, tenant: str) -> GoalAnswer | None:
        answer = queries.goal(self.client, goal_id, tenant)
        return answer if answer and answer.verdict is not GoalVerdict.PENDING else None

    def answer(self, value: Any, reason: str) -> None:
        """Answer the plan's question, as `planner answer` does."""
        body = {"command": "answer", "scope": "plan", "plan_id": self.plan_id, "value": value}
        command = Command.model_validate({**body, "command_id": token_hex(8), "actor": "demo", "reason": reason})
        self.client.xadd(self._partition.commands, {"data": codec.encode(command, exclude_none=True)})

    def end_of_plan(self) -> PlanView:
        """Wait for the end of the plan, which must be COMPLETED."""
        view = self.wait("the end of the plan", self._ended)
        if view.state is not PlanState.COMPLETED:
            raise DemoFailed(f"The plan ended as {view.state}: {view.halt and view.halt.reason}")
        return view

    def _ended(self) -> PlanView | None:
        watch = self.watch()
        ended = watch.refresh()
        if self.agent and watch.view and watch.view.waiting:  # a story with the scripted one has its answer ready
            raise DemoFailed(f"The plan asks a person: {' '.join(watch.view.waiting.questions)}")
        return ended

    def watch(self) -> PlanWatch:
        """Show the plan in the viewer from now on."""
        if self.progress.watch is None or self.progress.watch.plan_id != self.plan_id:
            self.progress.watch = PlanWatch(self.client, self.plan_id, self.partitions)
        return self.progress.watch

    def view(self, plan_id: str) -> PlanView | None:
        """Return a plan."""
        return queries.plan(self.client, self.partitions, plan_id)

    def step_specs(self) -> list[dict[str, Any]]:
        """Return the step specs that wait in our queue, as the controllers will read them."""
        entries: Any = self.client.xrange(self._partition.steps(self.queue))
        return [codec.loads(fields[b"data"]) for _, fields in entries]

    @property
    def _partition(self) -> Partition:
        return Partition(partition_of(self.plan_id, self.partitions))

    def test_branch(self, checkout: Path) -> int:
        """Run the tests of the plan's branch in a checkout. Returns their number; raises DemoFailed if a test fails."""
        self.read_diff()
        ran = repository.run_tests(checkout, self.place("report-after.xml"))
        self.progress.tests_passed = ran.passed
        if not (ran.passed and self.progress.diff):
            raise DemoFailed(f"On the plan's branch {ran.failed} of {ran.tests} tests fail.")
        return ran.tests

    def read_diff(self) -> None:
        """Read the change on the plan's branch for the end."""
        self.progress.diff = repository.diff(self.root, self.base, self.branch)

    def wait(self, what: str, probe: Callable[[], T | None]) -> T:
        """Wait until `probe` finds something. Raises DemoFailed at the timeout, or if a process has ended."""
        while not (found := probe()):
            if name := self.fleet.find_ended():
                raise DemoFailed(f"The process {name} ended while the demo waited for {what}.")
            deadline = AGENT_DEADLINE_S if self.agent else DEADLINE_S
            if self.progress.seconds > deadline:
                raise DemoFailed(f"After {deadline:.0f} s the demo still waited for {what}.")
            if self.progress.watch:
                self.progress.watch.refresh()
            self.viewer.show(self.progress)
            time.sleep(TICK_S)
        return found
