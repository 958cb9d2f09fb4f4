"""Campaigns through the real queue, with a real worker, from the goal to the end of the plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.kinds.campaign import CampaignPlan
from tests.conftest import RunningWorker, connect, running_worker
from tests.support.scripted import HOME, Fleet
from tests.support.scripts.campaign import EXPLORATION, FILES, TASKS, a_goal, a_task, scripted
from worker.cli.commands.app import app

EIGHT = [
    *("READ_EXPLORATION", "CALCULATE_COMPLEXITY", "COHERENCE_CHECK", "DESIGN_SEQUENCE"),
    *("LOCATE_TARGETS", "SET_BUDGETS", "EXTRACT_IDIOMS", "OUTPUT_PLAN"),
]
BLOCKED = {"status": "blocked", "reason": "no access to the registry"}
# An agent on the command line: its first answer is refused, and it mends that.
AGENT = """
import json, sys
prompt = sys.stdin.read()
tasks = json.loads(sys.argv[1])
if "Faults of the last answer" not in prompt:
    tasks[1]["delta"] = ["/etc/passwd"]
print("Here you are:\\n```json\\n" + json.dumps({"tasks": tasks}) + "\\n```")
"""


@pytest.fixture(scope="module")
def worker(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    """A worker whose operator enabled an agent on the command line."""
    directory = tmp_path_factory.mktemp("worker")
    (directory / "agent.py").write_text(AGENT)
    command = [sys.executable, str(directory / "agent.py"), codec.dumps(TASKS).decode()]
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
    enabled = {"PLANNER_DRAFTERS": "none,queue,cli", "PLANNER_CLI_COMMAND": codec.dumps(command).decode()}
    with running_worker(server_url, directory / "worker.log", **enabled) as running:
        yield running


@pytest.fixture
def fleet(worker: RunningWorker) -> Fleet:
    """Controllers of a queue of their own."""
    return Fleet(worker.redis)


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, worker: RunningWorker) -> Any:
    """The command `planner`, for the worker's server."""
    monkeypatch.setenv("PLANNER_REDIS_URL", worker.url)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, list(words))

    return run


def shown(planner: Any, plan_id: str) -> dict[str, Any]:
    result = planner("show", plan_id, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = codec.loads(result.stdout)
    return found


def events(redis: Redis, plan_id: str) -> list[tuple[str, dict[str, Any]]]:
    entries: Any = redis.xrange(HOME.events)
    told = [(fields[b"type"].decode(), codec.loads(fields[b"data"])) for _, fields in entries]
    names = ((name.removeprefix("dev.planner.").removesuffix(".v1"), data) for name, data in told)
    return [(name, data) for name, data in names if data.get("plan_id") == plan_id]


def phases(redis: Redis, plan_id: str) -> list[tuple[str, str]]:
    return [(data["phase"], data["status"]) for name, data in events(redis, plan_id) if name == "plan.phase"]


def moments(redis: Redis, plan_id: str) -> list[str]:
    """What happened to the steps, in order."""
    found = events(redis, plan_id)
    return [f"{name.removeprefix('step.')} {data['step_id']}" for name, data in found if name.startswith("step.")]


def test_explored_asked_answered_in_the_page_and_worked_on_side_by_side(
    fleet: Fleet, planner: Any, tmp_path: Path
) -> None:
    objective = "Keep sessions in Redis or in memory\n" + "\n".join(f"## Part {number}" for number in range(8))
    verdict, plan_id = fleet.submit(a_goal(objective, drafter="none"))
    assert verdict == "PLANNED"
    view = fleet.work(plan_id, scripted({"EXPLORE": EXPLORATION}), until=lambda view: view.waiting is not None)
    assert view.state == "EXECUTING"
    waiting = shown(planner, plan_id)["waiting"]
    assert waiting["kind"] == "clarify"
    assert waiting["questions"] == ['The objective says "or": which of the two is meant?']
    page = tmp_path / "page.md"
    page.write_text(waiting["document"])
    unanswered = planner("answer", plan_id, str(page), "--reason", "oops")
    assert unanswered.exit_code == 1
    assert "names no file that the goal allows" in " ".join(unanswered.output.split())
    page.write_text(waiting["document"] + "\nA\n")
    answered = planner("answer", plan_id, str(page), "--reason", "as the team decided")
    assert answered.exit_code == 0, answered.output
    view = fleet.work(plan_id, scripted({}))

    assert view.state == "COMPLETED", view.halt
    document = shown(planner, plan_id)["document"]
    plan = CampaignPlan.model_validate({name: document[name] for name in CampaignPlan.model_fields})
    assert plan.framework == "fastapi"
    assert plan.idioms.forbidden
    assert document["drafted_by"] == "templates"
    assert [task.type.value for task in plan.tasks] == ["SPEC", "BUILD", "SPEC", "BUILD", "VERIFY"]
    assert {each["status"] for each in document["progress"].values()} == {"complete"}
    told = [name for name, _ in phases(fleet.redis, plan_id)]
    assert told == [*EIGHT[:3], *EIGHT[1:]]  # what it is, and whether it is clear, is weighed again with the answer
    happened = moments(fleet.redis, plan_id)
    first, second, last = (f"{task.seq}-{task.slug}" for task in plan.tasks[::2])
    assert happened.index(f"started {second}") < happened.index(f"done {first}")
    assert happened[-1] == f"done {last}"


def test_drafted_by_a_controller_whose_first_answer_is_refused(fleet: Fleet, planner: Any) -> None:
    wrong = {"tasks": [{**TASKS[0], "delta": ["/etc/passwd"]}]}
    verdict, plan_id = fleet.submit(a_goal(exploration=EXPLORATION))
    view = fleet.work(plan_id, scripted({"DRAFT": [wrong, {"tasks": TASKS}]}))

    assert (verdict, view.state) == ("PLANNED", "COMPLETED"), view.halt
    drafts = [spec for spec in fleet.specs if spec["step_id"] == "draft"]
    assert [spec["attempt"] for spec in drafts] == [1, 2]
    assert drafts[0]["input"]["schema"]["required"] == ["tasks"]
    assert "| src/auth.py: relevance high" in drafts[0]["input"]["prompt"]
    failure = drafts[1]["context"]["previous_failure"]
    assert failure["category"] == "OUTPUT_REFUSED"
    assert failure["suggestion"].startswith("/tasks/0/delta/0: ")
    found = shown(planner, plan_id)
    ids = ["draft", "001-spec-auth", "002-build-auth", "003-verify-all"]
    assert [step["step_id"] for step in found["steps"]] == ids
    assert found["budget"]["failing_outcomes"]["spent"] == 1
    assert found["document"]["drafted_by"] == "queue"
    assert [name for name, _ in phases(fleet.redis, plan_id)] == [*EIGHT[:3], "DRAFT", *EIGHT[3:]]
    build = next(spec for spec in fleet.specs if spec["step_id"] == "002-build-auth")
    assert build["input"]["task"]["target_lines"] == {"src/auth.py": "7-27"}
    assert build["input"]["prior_knowledge"]["failures"] == ["race: lock the session"]


def test_two_drafts_of_no_use_leave_the_templates_and_an_event_that_says_so(fleet: Fleet, planner: Any) -> None:
    _, plan_id = fleet.submit(a_goal(exploration=EXPLORATION))
    view = fleet.work(plan_id, scripted({"DRAFT": ["I would rather not.", {"tasks": []}]}))

    assert view.state == "COMPLETED", view.halt
    assert shown(planner, plan_id)["document"]["drafted_by"] == "templates"
    (told,) = [status for name, status in phases(fleet.redis, plan_id) if name == "DRAFT"]
    assert told.startswith("Step: draft, Status: falling back on the templates (/tasks: ")


def test_an_exploration_that_never_comes_leaves_memory_and_a_question(fleet: Fleet, planner: Any) -> None:
    memory = {"failures": [{"name": f"f{number}", "cost": 5000} for number in range(12)]}
    _, plan_id = fleet.submit(a_goal(drafter="none", memory=memory))
    view = fleet.work(plan_id, scripted({"EXPLORE": ["no", "no"]}), until=lambda view: view.waiting is not None)

    assert view.waiting is not None
    assert (view.state, view.waiting.kind) == ("EXECUTING", "clarify")
    assert view.document["complexity"] == 10
    assert planner("answer", plan_id, "--answer", "src/auth.py, tests/test_auth.py", "--reason", "x").exit_code == 0
    assert fleet.work(plan_id, scripted({})).state == "COMPLETED"


def test_nothing_goes_past_a_confirmation(fleet: Fleet, planner: Any) -> None:
    both = {"candidates": [{"path": path, "relevance": "high"} for path in FILES[:2]]}
    verdict, plan_id = fleet.submit(a_goal(drafter="none", exploration={**EXPLORATION, "delta": both}))
    assert verdict == "NEEDS_INPUT"
    for wrong in ("no", "perhaps", "src/other.py"):
        refused = planner("answer", plan_id, "--answer", wrong, "--reason", "x")
        assert refused.exit_code == 1, wrong
    found = shown(planner, plan_id)
    assert (found["state"], found["waiting"]["kind"], found["steps"]) == ("CREATED", "confirm", [])
    assert planner("answer", plan_id, "--answer", "yes", "--reason", "x").exit_code == 0
    view = fleet.work(plan_id, scripted({}))

    assert view.state == "COMPLETED", view.halt
    assert {path for spec in fleet.specs for path in spec["allowed_files"]} == set(FILES)


def test_a_stuck_campaign_is_planned_anew_by_the_templates(fleet: Fleet, planner: Any) -> None:
    _, plan_id = fleet.submit(a_goal(tasks=TASKS))
    view = fleet.work(plan_id, scripted({"002-build-auth": [BLOCKED, BLOCKED]}))

    assert view.state == "COMPLETED", view.halt
    found = shown(planner, plan_id)
    assert {step["step_id"]: step["state"] for step in found["steps"]} == {
        "001-spec-auth": "DONE",
        "002-build-auth": "FAILED",
        "003-verify-all": "SKIPPED",
        "004-find-out-build-auth-r2": "DONE",
        "002-build-auth-r2": "DONE",
        "003-verify-all-r2": "DONE",
    }
    assert "004 (find-out-build-auth)" in found["document"]["graph"]
    assert {each["status"] for each in found["document"]["progress"].values()} == {"complete"}
    again = next(spec for spec in fleet.specs if spec["step_id"] == "002-build-auth-r2")
    assert "It was blocked before: no access to the registry." in again["guidance"]


def test_a_stuck_campaign_of_a_drafter_is_drafted_anew_with_more_tasks(fleet: Fleet) -> None:
    more = a_task("004", "vendor", "BUILD", "001", "pytest -q", "src/api.py")
    anew = {"tasks": [more, {**TASKS[1], "depends": ["001", "004"]}]}
    _, plan_id = fleet.submit(a_goal(exploration=EXPLORATION))
    answers = {"draft": {"tasks": TASKS}, "002-build-auth": [BLOCKED, BLOCKED], "draft-r2": anew}
    view = fleet.work(plan_id, scripted(answers))

    assert view.state == "COMPLETED", view.halt
    assert [task["seq"] for task in view.document["tasks"]] == ["001", "002", "003", "004"]
    asked = next(spec for spec in fleet.specs if spec["step_id"] == "draft-r2")
    assert asked["input"]["mode"] == "replan"
    assert "is blocked: no access to the registry" in asked["input"]["prompt"]
    happened = moments(fleet.redis, plan_id)
    assert happened.index("done 004-vendor-r2") < happened.index("started 002-build-auth-r2")


@pytest.mark.outages
def test_an_agent_on_the_command_line_drafts_before_the_plan_exists(fleet: Fleet) -> None:
    verdict, plan_id = fleet.submit(a_goal(drafter="cli"))
    spent = fleet.view(plan_id).budget.tokens.spent
    view = fleet.work(plan_id, scripted({}))

    assert (verdict, view.state) == ("PLANNED", "COMPLETED"), view.halt
    assert view.document["drafted_by"] == "cli"
    assert [step.step_id for step in view.steps] == ["001-spec-auth", "002-build-auth", "003-verify-all"]
    assert spent > 1000  # two questions and their answers
