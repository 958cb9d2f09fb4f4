"""The acts of this demo, from the history to what the plan's branch is worth."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from worker.demo import repository
from worker.demo.evolution import history
from worker.demo.evolution.asking import goal_of
from worker.demo.evolution.example import HISTORY, YARDSTICK
from worker.demo.stage import DemoFailed, Stage
from worker.host.git import Git
from worker.sandbox import process

BASE, *INSPIRATIONS = ("main", "index", "remember")
EVALUATION_S = 20.0


def tell(stage: Stage) -> None:
    """Play all acts."""
    root = stage.home("shop")
    _make_repository(stage, root)
    values = _evaluate(stage, root)
    with stage.act("A Celery worker") as act:
        stage.fleet.start_worker()
        act.result = "which asks no model: the draft is a step"
    plan_id = _submit(stage, root, values)
    with stage.act("Two controllers") as act:
        stage.fleet.start_controllers(root, [stage.queue], "worker.demo.evolution.agent")
        act.result = "with a scripted agent that plans too boldly at first"
    document = _follow(stage, plan_id)
    value = _check(stage, root, f"planner/{plan_id}")
    stage.scene.pages += [("The plan", "\n".join(_plan(document))), ("The evaluation", _evaluated(values, value))]


def _make_repository(stage: Stage, root: Path) -> None:
    with stage.act("A git history with two branches") as act:
        history.write(root, HISTORY)
        act.result = f"{len(HISTORY)} commits, {BASE} at {Git(root).line('rev-parse', '--short', BASE)}"


def _evaluate(stage: Stage, root: Path) -> dict[str, float]:
    """Measure the base and the inspirations."""
    with stage.act(f"{YARDSTICK} on {', '.join((BASE, *INSPIRATIONS))}") as act:
        values = {tip: _value(stage, root, tip) for tip in (BASE, *INSPIRATIONS)}
        act.result = f"{', '.join(f'{value:g}' for value in values.values())} titles a query"
    return values


def _value(stage: Stage, root: Path, tip: str) -> float:
    place = stage.home(f"at-{tip.replace('/', '-')}")
    repository.check_out(root, tip, place)
    ended = process.run(process.Job([sys.executable, YARDSTICK], place, EVALUATION_S, lambda: True))
    if ended.exit_code:
        raise DemoFailed(f"{YARDSTICK} failed on {tip}: {ended.stderr}")
    return float(ended.stdout)


def _submit(stage: Stage, root: Path, values: Mapping[str, float]) -> str:
    """Send the goal with its history, and look at what its drafter is going to be asked."""
    goal = goal_of(root, values, stage.queue)
    with stage.act("An evolution goal with commit cards from git log") as act:
        answer = stage.send(goal)
        (spec,) = stage.wait("the step that drafts", lambda: stage.specs(answer.plan_id))
        stage.scene.pages.append(("In the prompt: how an inspiration came about", _trajectory(spec["input"]["prompt"])))
        act.result = f"{answer.verdict}: {answer.plan_id}"
    return answer.plan_id


def _trajectory(prompt: str) -> str:
    """Cut the last trajectory out of a prompt."""
    section = prompt.rpartition("| Trajectory (unique vs base):")[2].partition("\n| Key files:")[0]
    return section.replace("\n| ", "\n").strip()


def _follow(stage: Stage, plan_id: str) -> dict[str, Any]:
    """Have the plan drafted and carried out; its first draft has to be refused."""
    with stage.act("The fleet at work") as act:
        view = stage.follow(plan_id)
        document: dict[str, Any] = view.document
        if document["attempts"] != 2:
            raise DemoFailed(f"The plan was drafted at attempt {document['attempts']}; the first should be refused.")
        tried = sum(step.attempt for step in view.steps)
        act.result = f"{view.state}: {tried} attempts at {len(view.steps)} steps, one of them the draft"
    stage.scene.pages.append(("The first draft was refused", "\n".join(stage.watch(plan_id).refused)))
    return document


def _check(stage: Stage, root: Path, branch: str) -> float:
    with stage.act(f"pytest and {YARDSTICK} on the plan's branch") as act:
        stage.scene.diff = repository.diff(root, BASE, branch)
        value = _value(stage, root, branch)
        ran = repository.run_tests(stage.home(f"at-{branch.replace('/', '-')}"), stage.home("report.xml"))
        stage.scene.tests_passed = ran.passed
        if not (ran.passed and stage.scene.diff):
            raise DemoFailed(f"On the plan's branch {ran.failed} of {ran.tests} tests fail.")
        act.result = f"all {ran.tests} tests pass, {value:g} titles a query"
    return value


def _plan(document: Mapping[str, Any]) -> Iterator[str]:
    plan = document["plan"]
    yield plan["summary"]
    for number, step in enumerate(plan["steps"], 1):
        yield f"{number}. {step['step_id']}: {step['title']} ({', '.join(step['files'])})"
    yield f"If all of it fails: {plan['fallback_plan']}"


def _evaluated(values: Mapping[str, float], value: float) -> str:
    return "\n".join(
        f"{tip:<18} {each:>4g} titles a query" for tip, each in {**values, "the plan's branch": value}.items()
    )
