"""A `campaign`: an ambiguous objective, a person's answer, and parallel tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from worker.demo.story import Answer, Change, DemoFailed, Spec, Story

if TYPE_CHECKING:
    from schemas.plan import PlanView, Waiting
    from worker.demo.session import Session

ANSWER = "A"  # by weight
GUESS = {"build-rates": ["shop/settings.py"]}  # a file that a first draft adds, and the goal does not allow


def answer(spec: Spec) -> Answer:
    """Return the answer to a step: the exploration, the tasks (at first with a forbidden file), or a task's changes."""
    changes: Sequence[Change] = ()
    match spec["controller_task_spec"]["type"]:
        case "EXPLORE":
            report: dict[str, Any] = {"output": STORY.data["exploration"]}
        case "DRAFT":
            guess = {} if spec["context"]["previous_failure"] else GUESS
            tasks = STORY.data["tasks"]
            drafted = [{**task, "delta": [*task["delta"], *guess.get(task["slug"], ())]} for task in tasks]
            report = {"output": {"tasks": drafted}}
        case _:
            slug = spec["input"]["task"]["slug"]
            changes = STORY.edits[slug]
            files = dict.fromkeys(change.file for change in changes)
            report = {"patch_cycles": 1, "output": f"{slug}: {', '.join(files)}"}
    return Answer(changes, report, len(json.dumps(report)))


def play(session: Session) -> None:
    """Play the story."""
    files = STORY.commits[0].files
    session.make_repository("A git repository of a small shop", f"{len(files)} files, commit {{commit}}")
    session.start_fleet("with a scripted agent that explores, drafts and patches")
    context = session.context(test_command="pytest -q", files=[*files])
    session.submit("A campaign: charge shipping by weight or by distance", STORY.data["goal"] | {"context": context})
    with session.step("The questions that the exploration leaves open") as step:
        session.watch()
        asked = session.wait("the question of the plan", lambda: _question(session.view(session.plan_id)))
        step.result = f"{asked.kind.upper()}: {asked.questions[0]}"
    with session.step("A person answers in the page") as step:
        page = f"{asked.document}\n{ANSWER}\n"
        session.show_page("The question, and its answer", page)
        session.answer(page, "as the team decided")
        step.result = f"{ANSWER}: by weight"
    document = session.follow().document
    session.show_page("The task graph", document["graph"])
    session.show_page("The plan", _plan_json(document))
    session.check_branch()


def _question(view: PlanView | None) -> Waiting | None:
    if view is not None and view.halt:
        raise DemoFailed(f"The plan ended as {view.state}: {view.halt.reason}")
    return view.waiting if view is not None else None


def _plan_json(document: Mapping[str, Any]) -> str:
    """Return the campaign's plan.json, a task a line."""
    from schemas.kinds.campaign import CampaignPlan  # here, so that the agent starts without it

    plan = {name: document[name] for name in CampaignPlan.model_fields}
    tasks = ",\n    ".join(map(json.dumps, plan.pop("tasks")))
    others = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in plan.items())
    return f'{{\n{others}  "tasks": [\n    {tasks}\n  ]\n}}\n'


STORY = Story("campaign", play, answer)
