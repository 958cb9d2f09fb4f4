"""A change of too many files and lines, from a real planner to the reference controller: one agent run, all parts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas import codec
from schemas.plan import PlanView
from tests.conftest import RunningWorker, wait_until
from tests.support.controlling import Repo
from tests.support.scripted import ENDED
from worker.store import queries

pytestmark = pytest.mark.outages

PLANNER = (sys.executable, "-c", "from worker.cli.commands.app import main; main()")
PARTS = 6
LINES = 40  # of each file; a step of this risk may change 5 files and 100 lines
AGENT = f"""
import json, pathlib, sys
spec = json.load(sys.stdin)
with open(sys.argv[1], "a") as runs:
    runs.write(spec["mode"] + " " + spec["step_id"] + "\\n")
if spec["mode"] == "patch":
    pathlib.Path("calc.py").write_text("def add(a, b):\\n    return a + b\\n")
    for number in range({PARTS}):
        path = pathlib.Path(f"src/part{{number}}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\\n" * {LINES})
    print(json.dumps({{"tokens_used": 1000}}))
else:
    print(json.dumps({{"output": "It is calc.py:2.", "tokens_used": 10}}))
"""


@pytest.mark.long
def test_the_parts_of_a_kept_change_land_without_another_run_of_the_agent(
    planner_worker: RunningWorker, tmp_path: Path
) -> None:
    repo, runs, agent = Repo(tmp_path / "shop"), tmp_path / "runs", tmp_path / "agent.py"
    agent.write_text(AGENT)
    known = {"language": "python", "test_command": "pytest", "failing_tests": ["test_calc.py::test_adds"]}
    context = {**known, "repo": "acme/shop", "base_sha": repo.git("rev-parse", "HEAD")}
    goal = {"goal": "Fix the sum", "goal_id": "kept", "allowed_files": ["src/**", "*.py"], "context": context}
    planner_worker.redis.xadd("planner:goals", {"data": codec.dumps(goal)})
    words = (
        "controller",
        "--exec",
        f"{sys.executable} {agent} {runs}",
        "--workdir",
        str(repo.path),
        "--sandbox",
        "off",
    )
    variables = {**os.environ, "PLANNER_REDIS_URL": planner_worker.url, "PLANNER_STATE_DIR": str(tmp_path / "state")}

    def over() -> PlanView | None:
        told = queries.goal(planner_worker.redis, "kept", "default")
        view = queries.plan(planner_worker.redis, 1, told.plan_id) if told and told.plan_id else None
        return view if view and view.state in ENDED else None

    with subprocess.Popen([*PLANNER, *words], env=variables, cwd=tmp_path) as process:
        try:
            view = wait_until(over, timeout=180, what="the end of the plan")
        finally:
            process.terminate()

    assert view
    assert view.state == "COMPLETED", view.halt
    assert [line for line in runs.read_text().splitlines() if line.startswith("patch")] == ["patch implement-fix"]
    parts = {step.step_id: step.allowed_files for step in view.steps if step.step_id.startswith("implement-fix")}
    assert sorted(map(len, parts.values())) == [2, 2, 3]
    changed = repo.git("diff", "--name-only", "HEAD", f"planner/{view.plan_id}").splitlines()
    assert changed == ["calc.py", *(f"src/part{number}.py" for number in range(PARTS))]
