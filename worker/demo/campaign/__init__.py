"""The story of a `campaign`: an objective that can be read in two ways, a person's answer, and tasks side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.base import GoalKind
from schemas.campaign_plan import CampaignPlan
from schemas.goal import Goal
from schemas.plan import PlanView, Waiting
from worker.demo import repository
from worker.demo.acts import check_branch
from worker.demo.campaign.example import ALLOWED, ANSWER, FILES, OBJECTIVE
from worker.demo.stage import DemoFailed, Stage

MORAL = "a person said what was meant, then two branches went on side by side."


def play(stage: Stage) -> None:
    """Play all acts; raises DemoFailed at the first that does not come to its end."""
    root = stage.home("shop")
    base = _make_repository(stage, root)
    _start_fleet(stage, root)
    plan_id = _submit(stage, base)
    _clarify(stage, plan_id)
    _follow(stage, plan_id)
    check_branch(stage, root, base, f"planner/{plan_id}")


def _make_repository(stage: Stage, root: Path) -> str:
    with stage.act("A git repository of a small shop") as act:
        base = repository.make(root, FILES, "Sell things")
        act.result = f"{len(FILES)} files, commit {base[:7]}"
    return base


def _start_fleet(stage: Stage, root: Path) -> None:
    with stage.act("A Celery worker and two controllers") as act:
        stage.fleet.start_worker()
        stage.fleet.start_controllers(root, [stage.queue], "worker.demo.campaign.agent")
        act.result = "with a scripted agent that explores, drafts and patches"


def _submit(stage: Stage, base: str) -> str:
    with stage.act("A campaign: charge shipping by weight or by distance") as act:
        body = {
            "goal": "Charge shipping",
            "kind": GoalKind.CAMPAIGN,
            "campaign": {"objective": OBJECTIVE},
            "allowed_files": ALLOWED,
            "context": {"repo": "shop", "base_sha": base, "test_command": "pytest -q", "files": [*FILES]},
            "queue": stage.queue,
        }
        answer = stage.send(Goal.model_validate(body))
        act.result = f"{answer.verdict}: {answer.plan_id}"
    return answer.plan_id


def _clarify(stage: Stage, plan_id: str) -> None:
    """Write the answer into the page that the plan asks with, and send it back."""
    with stage.act("What the exploration leaves open") as act:
        stage.watch(plan_id)
        asked = stage.wait("the question of the plan", lambda: _question(stage.view(plan_id)))
        act.result = f"{asked.kind.upper()}: {asked.questions[0]}"
    with stage.act("A person answers in the page") as act:
        page = f"{asked.document}\n{ANSWER}\n"
        stage.scene.pages.append(("The question, and its answer", page))
        stage.answer(plan_id, page, "as the team decided")
        act.result = f"{ANSWER}: by weight"


def _question(view: PlanView | None) -> Waiting | None:
    if view is not None and view.halt:
        raise DemoFailed(f"The plan ended as {view.state}: {view.halt.reason}")
    return view.waiting if view is not None else None


def _follow(stage: Stage, plan_id: str) -> None:
    with stage.act("The fleet at work") as act:
        view = stage.follow(plan_id)
        act.result = f"{view.state}: {len(stage.watch(plan_id).outcomes)} attempts at {len(view.steps)} steps"
        stage.scene.pages += [("The task graph", view.document["graph"]), ("The plan", _plan_json(view.document))]


def _plan_json(document: Mapping[str, Any]) -> str:
    """Write plan.json, a task a line."""
    plan = {name: document[name] for name in CampaignPlan.model_fields}
    tasks = ",\n    ".join(map(json.dumps, plan.pop("tasks")))
    others = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in plan.items())
    return f'{{\n{others}  "tasks": [\n    {tasks}\n  ]\n}}\n'
