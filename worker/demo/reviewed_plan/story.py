"""The acts of this demo, from the repository to its tests on the plan's branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.goal import Goal
from worker.demo import repository
from worker.demo.acts import check_branch
from worker.demo.reviewed_plan import QUEUES
from worker.demo.reviewed_plan.example import ALLOWED, FILES, GOAL
from worker.demo.stage import DemoFailed, Stage


def tell(stage: Stage) -> None:
    """Play all acts."""
    root = stage.home("shop")
    base = _make_repository(stage, root)
    _start_fleet(stage, root)
    plan_id = _submit(stage, base)
    document = _follow(stage, plan_id)
    check_branch(stage, root, base, f"planner/{plan_id}")
    stage.scene.pages += [("The gates", "\n".join(_gates(document))), ("plan.md", document["plan_md"])]


def _make_repository(stage: Stage, root: Path) -> str:
    with stage.act("A git repository") as act:
        base = repository.make(root, FILES, "Sell things")
        act.result = f"{len(FILES)} files, commit {base[:7]}"
    return base


def _start_fleet(stage: Stage, root: Path) -> None:
    with stage.act("A Celery worker and two controllers") as act:
        stage.fleet.start_worker()
        stage.fleet.start_controllers(root, QUEUES, "worker.demo.reviewed_plan.agent")
        act.result = f"for the queues {', '.join(QUEUES)}"


def _submit(stage: Stage, base: str) -> str:
    with stage.act(f"The goal: {GOAL}") as act:
        context = {"language": "python", "test_command": "pytest", "base_sha": base, "repo": "shop"}
        body = {"goal": GOAL, "kind": "reviewed_plan", "allowed_files": ALLOWED, "context": context}
        answer = stage.send(Goal.model_validate(body))
        act.result = f"{answer.verdict}: {answer.plan_id}"
    return answer.plan_id


def _follow(stage: Stage, plan_id: str) -> dict[str, Any]:
    """Have it planned, reviewed and carried out; a gate has to fail once, and the plan has to be frozen."""
    with stage.act("The fleet at work") as act:
        view = stage.follow(plan_id)
        document: dict[str, Any] = view.document
        said = [record["verdict"] for record in document["gate_history"]]
        if said.count("FAIL") != 1 or not document["plan"]["frozen_at"]:
            raise DemoFailed(f"The gates said {', '.join(said)}; one of them should have failed once.")
        waves = len(document["plan"]["milestone_dependencies"]["waves"])
        act.result = f"{view.state}: {len(view.steps)} steps, {len(said)} reviews, {waves} waves"
    return document


def _gates(document: Mapping[str, Any]) -> Iterator[str]:
    """Tell what each gate said each time, and what kept it shut."""
    for record in document["gate_history"]:
        counts = sum(count for row in record["counts"].values() for count in row.values())
        gate = f"{record['phase']}-qr-gate"
        yield f"{gate:<20} iteration {record['iteration']}  {record['verdict']}  {counts} items"
        yield from (f"    {finding}" for finding in record["findings"])
