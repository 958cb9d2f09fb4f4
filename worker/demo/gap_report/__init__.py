"""The story of a `gap_report`: what CI found and a person wished is closed, the most critical gap first."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count
from pathlib import Path
from shutil import which
from typing import Any

from schemas.gap import Gap, IterationPlan
from schemas.goal import Goal
from schemas.plan import PlanView
from tasks.text.fields import one_line
from worker.demo import repository
from worker.demo.gap_report import ci
from worker.demo.gap_report.example import ALLOWED, FILES, WISH
from worker.demo.gap_report.pages import iteration_line, report_page
from worker.demo.stage import DemoFailed, Stage
from worker.sources import gaps, inbox

MORAL = "one gap an iteration, in their order; ruff, pytest and a person found nothing more."
NEEDS = ("pytest", "ruff")
MOST = 5  # iterations
MAX_TITLE = 46
NOT_OURS = (
    "Another worker of this server planned it with pyright, which is not here: run the demo without PLANNER_REDIS_URL."
)


def play(stage: Stage) -> None:
    """Play all acts; raises DemoFailed at the first that does not come to its end."""
    root = stage.home("till")
    base = tip = _make_repository(stage, root)
    _start_fleet(stage, root)
    done: list[str] = []
    for number in count(1):
        found = _run_ci(stage, root, tip, number)
        goal = _goal(stage, root, found, tip)
        if goal is None:
            break
        if number > MOST:
            raise DemoFailed(f"After {MOST} iterations there still is a gap.")
        plan = _close(stage, goal, number)
        done.append(iteration_line(plan))
        tip = f"planner/{plan.plan_id}"
        _put_away(stage, plan)
    stage.scene.pages.append(("The iterations", "\n".join(done)))
    _check(stage, root, base, tip, found)


def _make_repository(stage: Stage, root: Path) -> str:
    with stage.act("A git repository with defects, and a wish") as act:
        base = repository.make(root, FILES, "Sell tea")
        (stage.home("inbox")).mkdir()
        stage.home("inbox/receipt.md").write_text(WISH)
        act.result = f"till, commit {base[:7]}; inbox/receipt.md"
    return base


def _start_fleet(stage: Stage, root: Path) -> None:
    with stage.act("A Celery worker and two controllers") as act:
        own = {} if _has_pyright() else {"PLANNER_PLANNING_GAP_CHECKS": "ruff-check,compileall"}
        stage.fleet.start_worker(**own)
        stage.fleet.start_controllers(root, [stage.queue], "worker.demo.gap_report.agent")
        instead = "; in place of pyright, which is not here, a check of the syntax" if own else ""
        act.result = f"with a scripted agent{instead}"


def _run_ci(stage: Stage, root: Path, tip: str, number: int) -> ci.Output:
    with stage.act("ruff and pytest, as CI runs them") as act:
        checkout = stage.home(f"checkout-{number}")
        repository.check_out(root, tip, checkout)
        found = ci.run(checkout, stage.home(f"ruff-{number}.sarif"), stage.home(f"report-{number}.xml"))
        act.result = f"{len(found.findings)} findings, {found.suite.failed} of {found.suite.tests} tests fail"
    return found


def _goal(stage: Stage, root: Path, found: ci.Output, tip: str) -> Goal | None:
    """Make the goal as `planner submit --from-sarif --from-junit --inbox` does; None where there is no gap left."""
    told = gaps.GapSources(found.findings, found.report, (), inbox.read(stage.home("inbox")))
    context = {"repo": "till", "base_sha": repository.commit(root, tip)}
    body: dict[str, Any] = {"allowed_files": list(ALLOWED), "queue": stage.queue, "context": context}
    made = gaps.goal_of(body, told, list(ALLOWED), found.checkout)
    goal = Goal.model_validate(made) if made else None
    if goal and not stage.scene.pages:
        stage.scene.pages.append(("The gap report, in the order of its gaps", report_page(_gaps_of(goal))))
    return goal


def _close(stage: Stage, goal: Goal, number: int) -> PlanView:
    with stage.act(one_line(f"Iteration {number}: {_gaps_of(goal)[0].description}", MAX_TITLE)) as act:
        answer = stage.send(goal)
        if answer.verdict != "PLANNED":
            raise DemoFailed(f"The goal became {answer.verdict}: {answer.reason}")
        view = _follow(stage, answer.plan_id)
        act.result = f"{view.state}: {IterationPlan.model_validate(view.document).iteration_id}"
    return view


def _follow(stage: Stage, plan_id: str) -> PlanView:
    try:
        return stage.follow(plan_id)
    except DemoFailed as error:
        view = stage.view(plan_id)
        if view and not _has_pyright() and any("pyright" in step.verify for step in view.steps):
            raise DemoFailed(f"{error}. {NOT_OURS}") from None
        raise


def _has_pyright() -> bool:
    return bool(which("pyright") or find_spec("pyright"))


def _put_away(stage: Stage, plan: PlanView) -> None:
    """Take a wish out of the inbox once it has come true."""
    if IterationPlan.model_validate(plan.document).gap.category == "inbox":
        stage.home("inbox/receipt.md").unlink()


def _check(stage: Stage, root: Path, base: str, tip: str, found: ci.Output) -> None:
    stage.scene.diff = repository.diff(root, base, tip)
    stage.scene.tests_passed = found.suite.passed and not found.findings
    if not (stage.scene.tests_passed and stage.scene.diff):
        raise DemoFailed("Nothing is left to do, and yet ruff or pytest is not content.")


def _gaps_of(goal: Goal) -> tuple[Gap, ...]:
    report = goal.gap_report and goal.gap_report.gap_report
    return report.gaps if report else ()
