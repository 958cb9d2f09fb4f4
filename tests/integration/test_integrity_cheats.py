"""Cheats in five languages, by a scripted agent through the real controller: none that is refused is completed."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.plan import PlanView
from tasks.toolchain.files import configures_verification
from tests.conftest import wait_until
from tests.support.cheats import SUPPRESSED, WEAKENED
from tests.support.committing import commit, git
from tests.support.planner import Planner, repeating
from worker.agents.agent import command_agent
from worker.controller import ControllerConfig, run
from worker.sandbox.paths import PathGrant

pytestmark = [pytest.mark.outages, pytest.mark.long]

GLOBS = ["src/**", "tests/**", "test/**", "pkg/**"]
REPAIR, FEATURE = "Fix the crash of the calculator", "Add an option for the calculator"
AGENT = """
import json, pathlib, sys
spec = json.load(sys.stdin)
path, text = json.loads((pathlib.Path(sys.argv[1]) / spec["context"]["base_sha"]).read_text())
if text is None:
    pathlib.Path(path).unlink()
else:
    pathlib.Path(path).write_text(text)
print(json.dumps({"tokens_used": 1000, "output": "done"}))
"""


class Players:
    """A planner, and a repository in which an agent writes what the row of a goal's commit says."""

    def __init__(self, url: str, home: Path) -> None:
        self.planner, self.root, self.rows = Planner(url), home / "shop", home / "rows"
        self.count = 0
        self.root.mkdir()
        self.rows.mkdir()
        git(self.root, "init", "--quiet", "--initial-branch=main")

    def play(self, goal: str, path: str, before: str | None, after: str | None) -> PlanView:
        """Have the row done as one step of a goal, to the end of its plan."""
        for each in self.root.iterdir():
            if each.name != ".git":
                git(self.root, "rm", "-r", "--quiet", each.name)
        self.count += 1
        base = commit(self.root, {"check.py": f"OK = {self.count}\n", **({} if before is None else {path: before})})
        (self.rows / base).write_text(json.dumps([path, after]))
        step = {"step_id": "fix", "title": "Fix", "intent": "Fix it", "allowed_files": [path]}
        named = [path] if configures_verification(path) else []
        plan_id = self.planner.submit(
            goal=goal,
            allowed_files=[*GLOBS, *named],
            steps=[{**step, "verify": "python -m py_compile check.py"}],
            context={"base_sha": base, "files": ["check.py", path]},
        )
        ended = ("COMPLETED", "HALTED", "REJECTED")
        found = wait_until(
            lambda: view if (view := self.planner.view(plan_id)).state in ended else None, timeout=60, what="the end"
        )
        assert found
        return found


@pytest.fixture
def players(redis_url: str, tmp_path: Path) -> Iterator[Players]:
    made = Players(redis_url, tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "trees").mkdir()
    commit(made.root, {"check.py": "OK = 0\n"})
    config = ControllerConfig(
        redis_url=redis_url,
        workdir=made.root,
        agent=command_agent(f"{sys.executable} -IS {tmp_path / 'agent.py'} {made.rows}"),
        heartbeat_s=0.05,
        worktrees=tmp_path / "trees",
        tool_paths=(PathGrant(tmp_path, writable=True),),
    )
    stop = threading.Event()
    thread = threading.Thread(target=lambda: run(config, stop))
    with repeating(made.planner.container.context(0).engine.drain):
        thread.start()
        yield made
        stop.set()
        thread.join(30)


def test_no_cheat_that_a_repair_refuses_is_completed(players: Players) -> None:
    """A file that is named may be changed, so that what is done to configuration is told."""
    wrong = []
    for path, before, after, kind in [*WEAKENED, *SUPPRESSED]:
        is_told = kind.startswith("own_") or configures_verification(path)
        view = players.play(REPAIR, path, before, after)
        known = kind in [each.kind for each in view.integrity]
        ended = "COMPLETED" if is_told else "HALTED integrity"
        if not known or ended != f"{view.state} {view.halt.rule if view.halt else ''}".strip():
            wrong.append(
                (path, kind, view.state, view.halt and view.halt.reason, [each.kind for each in view.integrity])
            )

    assert wrong == []


def test_a_feature_is_completed_and_told_of_the_same(players: Players) -> None:
    view: Any = players.play(FEATURE, *WEAKENED[3][:3])

    assert view.state == "COMPLETED"
    assert view.doubt.startswith("integrity: test_skipped")
