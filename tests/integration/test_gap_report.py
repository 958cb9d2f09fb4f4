"""Gap reports through the real queue: iterations of a real worker, done by controllers that follow a script."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.kinds.gap_report import IterationPlan
from tests.conftest import RunningWorker, wait_until
from tests.support.kinds.gap_report import a_gap
from tests.support.scripted import Fleet, Says
from tests.support.scripts.gap_report import FILES, RUFF, a_goal, fails, succeeds
from worker.cli.commands.app import app
from worker.render.summary import page_of_goal

CREATE_B, CREATE_C = a_gap("Create src/b.py"), a_gap("Create src/c.py")


@pytest.fixture
def fleet(planner_worker: RunningWorker) -> Fleet:
    return Fleet(planner_worker.redis)


@pytest.fixture
def planner(planner_worker: RunningWorker, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command of `planner` against the server of the worker."""
    monkeypatch.setenv("PLANNER_REDIS_URL", planner_worker.url)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def planned(fleet: Fleet, goal: dict[str, Any], says: Says) -> tuple[IterationPlan, str]:
    """Have a goal planned and its plan worked on to its end; returns its document, and how it ended."""
    verdict, plan_id = fleet.submit(goal)
    assert verdict == "PLANNED"
    view = fleet.work(plan_id, says)
    return IterationPlan.model_validate(view.document), str(view.state)


def fails_by(way: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Fail in a way of its own: five plans that fail alike would have their repository paused by its breaker."""
    said = fails(spec)
    if "failure_evidence" in said:
        said["failure_evidence"]["stack_trace_head"] += f" ({10 * way})"
    return said


def test_an_iteration_runs_to_its_end_and_is_shown_with_its_document(
    fleet: Fleet, planner: Callable[..., Result]
) -> None:
    _, plan_id = fleet.submit(a_goal(RUFF, CREATE_B, allowed=["src/a.py", "src/b.py"]))
    fleet.work(plan_id, succeeds)

    shown = codec.loads(planner("show", plan_id, "--json").stdout)

    assert (shown["kind"], shown["state"]) == ("gap_report", "COMPLETED")
    assert [(step["step_id"], step["state"], step["allowed_files"]) for step in shown["steps"]] == [
        ("action-1", "DONE", ["src/a.py"]),
        ("verify", "DONE", []),
    ]
    plan = IterationPlan.model_validate(shown["document"])
    assert plan.gap.description == RUFF["description"]
    assert plan.actions[0].target_files == ("src/a.py",)
    assert plan.estimated_risk == "medium"
    first = fleet.specs[0]
    assert first["verify"] == "ruff check -- src/a.py && pyright src/a.py && python -m py_compile src/a.py"
    assert shown["steps"][-1]["verify"].endswith("pytest -q")  # the whole is judged at the end
    assert first["input"]["gap"]["evidence"] == RUFF["evidence"]
    assert first["input"]["iteration_id"] == plan.iteration_id
    goal_id = str(shown["goal_id"])
    record = wait_until(lambda: (found := fleet.verdict(goal_id)) and found.state and found, what="the goal's record")
    assert [each.model_dump() for each in record.criteria] == shown["criteria"]
    assert record.criteria[0].checked_by.endswith("ruff check -- src/a.py")
    assert "checked by `nothing`" in page_of_goal(record)


@pytest.mark.parametrize(
    ("gaps", "reason"), [((), "no_gap"), ((a_gap("Create seed.py"), a_gap("Implement kernel/x.py")), "all_protected")]
)
def test_where_there_is_nothing_to_do_the_verdict_says_why(
    planner: Callable[..., Result], tmp_path: Path, gaps: tuple[dict[str, Any], ...], reason: str
) -> None:
    (tmp_path / "goal.json").write_bytes(codec.dumps(a_goal(*gaps, allowed=["seed.py", "kernel/x.py", "src/a.py"])))

    answer = planner("submit", tmp_path / "goal.json", "--wait", "--json")

    assert answer.exit_code == 0, answer.output
    told = codec.loads(answer.stdout)
    assert (told["verdict"], told["reason"]) == ("NOTHING_TO_DO", reason)
    assert planner("show", told["plan_id"], "--json").exit_code == 3


def test_a_gap_that_failed_three_times_comes_last_until_it_is_closed(fleet: Fleet) -> None:
    goal = a_goal(CREATE_B, CREATE_C, allowed=["src/b.py", "src/c.py"], repo=f"acme/{uuid.uuid4().hex}")

    failed = [planned(fleet, goal, partial(fails_by, way)) for way in "mnopqr"]
    last, ended = planned(fleet, goal, succeeds)
    again, _ = planned(fleet, goal, succeeds)

    assert {state for _, state in failed} == {"HALTED"}
    assert [plan.gap.description for plan, _ in failed] == [CREATE_B["description"]] * 3 + [CREATE_C["description"]] * 3
    assert [plan.estimated_risk for plan, _ in failed] == ["low", "high", "high"] * 2
    assert not any(plan.actions[0].description.startswith("WARNING") for plan, _ in failed)
    # all are exhausted: the first once more, with a warning; that closes it, and it has no past any more
    assert (last.gap.description, last.estimated_risk, ended) == (CREATE_B["description"], "high", "COMPLETED")
    assert last.actions[0].description.startswith("WARNING: this gap failed 3 times in a row")
    assert (again.gap.description, again.estimated_risk) == (CREATE_B["description"], "low")
    numbers = [plan.iteration_id.split("-")[1] for plan in (*(plan for plan, _ in failed), last, again)]
    assert numbers == [f"{number:04}" for number in range(1, 9)]


def test_repositories_do_not_share_their_memory(fleet: Fleet) -> None:
    for _ in range(2):
        goal = a_goal(CREATE_B, allowed=["src/b.py"], repo=f"acme/{uuid.uuid4().hex}")
        plan, _ = planned(fleet, goal, fails)

        assert (plan.iteration_id.split("-")[1], plan.estimated_risk) == ("0001", "low")


def test_what_an_exploration_finds_is_patched_and_verified(fleet: Fleet, planner: Callable[..., Result]) -> None:
    answers = iter(["no idea", {"files": ["src/m1.py", "src/m4.py", "etc/passwd", "src/m7.py"]}])

    def says(spec: Mapping[str, Any]) -> dict[str, Any]:
        return {"output": next(answers)} if spec["step_id"] == "explore-scope" else succeeds(spec)

    _, plan_id = fleet.submit(a_goal(a_gap("Make it nice"), allowed=FILES, protected_paths=["src/m7.py"]))
    fleet.work(plan_id, says)

    shown = codec.loads(planner("show", plan_id, "--json").stdout)
    assert shown["state"] == "COMPLETED"
    assert [(step["step_id"], step["attempt"], step["allowed_files"]) for step in shown["steps"]] == [
        ("explore-scope", 2, []),
        ("action-1", 1, ["src/m1.py", "src/m4.py"]),
        ("verify", 1, []),
    ]
    assert shown["document"]["actions"][0]["target_files"] == ["src/m1.py", "src/m4.py"]
    assert fleet.specs[0]["input"]["files"] == FILES[:-1]
    assert fleet.specs[1]["context"]["previous_failure"]["category"] == "OUTPUT_REFUSED"


def test_an_exploration_that_finds_nothing_twice_leaves_all_files_to_the_patch(fleet: Fleet) -> None:
    def says(spec: Mapping[str, Any]) -> dict[str, Any]:
        if spec["step_id"] == "explore-scope":
            return {"output": {"files": ["elsewhere.py"]}}
        return {**succeeds(spec), "touched_files": spec["allowed_files"][:1]}

    _, plan_id = fleet.submit(a_goal(a_gap("Make it nice"), allowed=FILES))

    view = fleet.work(plan_id, says)

    assert view.state == "COMPLETED"
    assert [(step.step_id, step.attempt, [*step.allowed_files]) for step in view.steps] == [
        ("explore-scope", 2, []),
        ("action-1", 1, FILES),
        ("verify", 1, []),
    ]


def test_an_iteration_whose_verification_fails_for_good_is_not_completed(fleet: Fleet) -> None:
    def says(spec: Mapping[str, Any]) -> dict[str, Any]:
        return fails(spec) if spec["step_id"] == "verify" else succeeds(spec)

    _, plan_id = fleet.submit(a_goal(RUFF, allowed=["src/a.py"]))
    view = fleet.work(plan_id, says)

    states = {step.step_id: step.state for step in view.steps}
    assert (view.state, states["action-1"]) == ("HALTED", "DONE")
    assert states["verify"] in {"FAILED", "HALTED"}


def test_a_verification_that_fails_once_is_tried_again(fleet: Fleet) -> None:
    def says(spec: Mapping[str, Any]) -> dict[str, Any]:
        return fails(spec) if (spec["step_id"], spec["attempt"]) == ("verify", 1) else succeeds(spec)

    plan, ended = planned(fleet, a_goal(RUFF, allowed=["src/a.py"]), says)

    assert (plan.gap.category, ended) == ("quality", "COMPLETED")
