"""The story of a `task`: a bug in a real repository, from the tests that fail to the tests that pass."""

from __future__ import annotations

from pathlib import Path

from schemas.base import PlanState
from schemas.goal import Goal
from worker.demo import repository
from worker.demo.acts import check_branch
from worker.demo.stage import DemoFailed, Stage
from worker.demo.task.example import FILES, OUTSIDE, SOURCE
from worker.demo.watch import reason
from worker.sources import goal as goals
from worker.sources import junit

MORAL = "real tests stopped a wrong patch, a right one landed."


def play(stage: Stage) -> None:
    """Play all acts; raises DemoFailed at the first that does not come to its end."""
    root = stage.home("billing")
    base = _make_repository(stage, root)
    _start_fleet(stage, root)
    goal = _goal(stage, _run_tests(stage, root), base)
    plan_id = _submit(stage, goal)
    _refuse(stage, goal)
    _follow(stage, plan_id)
    check_branch(stage, root, base, f"planner/{plan_id}")


def _make_repository(stage: Stage, root: Path) -> str:
    with stage.act("A git repository with a bug") as act:
        base = repository.make(root, FILES, "Renew subscriptions")
        act.result = f"{SOURCE}, commit {base[:7]}"
    return base


def _start_fleet(stage: Stage, root: Path) -> None:
    with stage.act("A Celery worker and two controllers") as act:
        stage.fleet.start_worker()
        stage.fleet.start_controllers(root, [stage.queue], "worker.demo.task.agent")
        act.result = "with a scripted agent that guesses first"


def _run_tests(stage: Stage, root: Path) -> Path:
    with stage.act("pytest, as CI runs it") as act:
        ran = repository.run_tests(root, stage.home("report.xml"))
        if not ran.failed:
            raise DemoFailed(f"pytest found no failing test (exit code {ran.exit_code}).")
        act.result = f"{ran.failed} of {ran.tests} tests fail"
    return ran.report


def _goal(stage: Stage, report: Path, base: str) -> Goal:
    """Make the goal as `planner submit --from-junit` does; what may be changed is always said by a person."""
    options = {"allowed_files": [SOURCE], "queue": stage.queue, "base_sha": base, "repo": "billing"}
    body = goals.with_options(goals.with_report({}, junit.read(report.read_bytes())), options)
    return Goal.model_validate(body)


def _submit(stage: Stage, goal: Goal) -> str:
    with stage.act("A goal from the JUnit report") as act:
        answer = stage.send(goal)
        act.result = f"{answer.verdict}: {answer.plan_id}"
    return answer.plan_id


def _refuse(stage: Stage, goal: Goal) -> None:
    with stage.act(f"The same goal, with {OUTSIDE}") as act:
        answer = stage.send(goal.model_copy(update={"allowed_files": (*goal.allowed_files, OUTSIDE)}))
        view = stage.wait("the rejected plan", lambda: stage.view(answer.plan_id))
        stage.scene.rejected = view
        if view.state is not PlanState.REJECTED:
            raise DemoFailed(f"A goal that reaches outside the repository became {view.state}, not REJECTED.")
        act.result = f"{view.state}: {reason(view)}"


def _follow(stage: Stage, plan_id: str) -> None:
    with stage.act("The fleet at work") as act:
        view = stage.follow(plan_id)
        act.result = f"{view.state}: {len(stage.watch(plan_id).outcomes)} attempts at {len(view.steps)} steps"
