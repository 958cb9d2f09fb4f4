"""A file that an agent renames in a step with patterns: what is checked afterwards is what is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from tests.conftest import RunningWorker, running_worker, wait_until
from tests.support.controlling import Repo
from tests.support.scripted import ENDED
from worker.controller import changes
from worker.store import queries

pytestmark = pytest.mark.outages

AGENT = """
import json, os, pathlib, sys
spec = json.load(sys.stdin)
if spec["mode"] == "patch":
    os.rename("calc.py", "sums.py")
    pathlib.Path("sums.py").write_text("def add(a, b):\\n    return a + b\\n")
    pathlib.Path("test_sums.py").write_text("import sums\\n\\n\\ndef test_adds():\\n    assert sums.add(2, 2) == 4\\n")
    os.remove("test_calc.py")
"""


@pytest.fixture
def worker(redis_url: str, tmp_path: Path) -> Iterator[RunningWorker]:
    with running_worker(redis_url, tmp_path / "worker.log") as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize("tells", [True, False])
def test_a_plan_whose_agent_renames_a_file_is_completed(
    worker: RunningWorker,
    repo: Repo,
    start: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tells: bool,
) -> None:
    if not tells:  # as a controller that knows no `deleted_files`
        named = changes.name_changes
        monkeypatch.setattr(changes, "name_changes", lambda *given: replace(named(*given), deleted=()))
    (tmp_path / "renaming.py").write_text(AGENT)
    context = {"base_sha": repo.git("rev-parse", "main"), "files": ["calc.py", "test_calc.py", "words.py"]}
    context |= {"language": "python", "test_command": "pytest -q"}
    goal = {"goal": "Rename calc to sums", "goal_id": "rename", "allowed_files": ["*.py"], "context": context}
    worker.redis.xadd("planner:goals", {"data": codec.dumps(goal)})
    start(command=f"{sys.executable} -IS {tmp_path / 'renaming.py'}")

    def ended() -> Any:
        known = queries.goal(worker.redis, "rename", "default")
        view = queries.plan(worker.redis, 1, known.plan_id) if known and known.plan_id else None
        return view if view and view.state in ENDED else None

    view = wait_until(ended, timeout=120, what="the end of the plan")
    assert view.state == "COMPLETED", view.halt
    steps = {step.step_id: step for step in view.steps}
    assert steps["check-changed"].verify == "python -m py_compile sums.py test_sums.py"
    assert (steps["check-changed"].attempt == 1) is tells
    assert "check-changed-mend" not in steps
