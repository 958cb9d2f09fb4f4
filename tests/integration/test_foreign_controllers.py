"""Controllers that are not ours, as processes beside a real worker and our delivery: what they change is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from schemas.plan import PlanView
from tests.conftest import RunningWorker, wait_until
from tests.support.controlling import Repo, bare
from tests.support.scripted import ENDED
from worker.store import queries

pytestmark = pytest.mark.outages

FOREIGN = Path(__file__).parents[1] / "support/foreign_controller.py"
PLANNER = (sys.executable, "-c", "from worker.cli.commands.app import main; main()")
REPOSITORY = '[repositories."acme/shop"]\nurl = "{url}"\n[repositories."acme/shop".delivery]\npush = true\n'

Play = Callable[..., PlanView]


@pytest.fixture
def remote(tmp_path: Path) -> Repo:
    return bare(Repo(tmp_path / "shop"), "shop.git")


@pytest.fixture
def play(planner_worker: RunningWorker, remote: Repo, tmp_path: Path) -> Iterator[Play]:
    """Submit a goal to a real worker, have a foreign controller do its steps and ours deliver; returns the end."""
    processes = ExitStack()
    script, repositories = tmp_path / "script.json", tmp_path / "repos.toml"
    repositories.write_text(REPOSITORY.format(url=remote.path))
    variables = {**os.environ, "PLANNER_REDIS_URL": planner_worker.url, "TMPDIR": str(tmp_path)}

    def start(*words: str) -> None:
        process = subprocess.Popen(words, env=variables, cwd=tmp_path)
        processes.callback(process.wait, 60)
        processes.callback(process.terminate)

    def run(does: dict[str, Any], **goal: Any) -> PlanView:
        script.write_bytes(codec.dumps(does))
        start(sys.executable, str(FOREIGN), planner_worker.url, str(remote.path), str(script))
        start(*PLANNER, "controller", "--repos", str(repositories), "--queue", "deliver", "--logs", "off")
        context = {"repo": "acme/shop", "base_sha": remote.git("rev-parse", "main"), **goal.pop("context", {})}
        body = {"goal": "Fix the sum", "goal_id": tmp_path.name, "context": context, "delivery": {"push": True}, **goal}
        planner_worker.redis.xadd("planner:goals", {"data": codec.dumps(body)})

        def over() -> PlanView | None:
            known = queries.goal(planner_worker.redis, tmp_path.name, "default")
            view = queries.plan(planner_worker.redis, 1, known.plan_id) if known and known.plan_id else None
            return view if view and view.state in ENDED else None

        ended = wait_until(over, timeout=180, what="the end of the plan")
        assert ended
        return ended

    with processes:
        yield run


def branches(remote: Repo) -> list[str]:
    return remote.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").splitlines()


def supplied(*paths: str) -> dict[str, Any]:
    """A goal that brings its step along, which may change these files."""
    step = {"step_id": "fix", "title": "Fix it", "intent": "Fix the sum", "allowed_files": list(paths)}
    return {"allowed_files": list(paths), "steps": [{**step, "verify": "python -m compileall -q ."}]}


def test_an_honest_controller_that_is_not_ours_is_delivered(play: Play, remote: Repo) -> None:
    view = play({"fix": {"write": {"calc.py": "def add(a, b):\n    return a + b\n"}}}, **supplied("calc.py"))

    assert view.state == "COMPLETED", view.halt
    assert view.branch
    assert view.branch in branches(remote)
    assert view.undelivered is None


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"calc.py": "1\n", "words.py": "2\n"}, "that the goal does not allow: words.py"),
        ({"calc.py": "1\n", "migrations/1.py": "2\n"}, "that the goal does not allow: migrations/1.py"),
    ],
)
def test_a_controller_that_lies_about_what_it_changed_is_not_delivered(
    play: Play, remote: Repo, files: dict[str, str], told: str
) -> None:
    lie = {"touched_files": ["calc.py"], "created_files": []}

    view = play({"fix": {"write": files, "report": lie}}, **supplied("calc.py"))

    assert view.branch is None
    assert told in (view.undelivered or "")
    assert branches(remote) == ["main"]


def permitted(**context: Any) -> dict[str, Any]:
    """A goal whose one patch may change what a pattern means."""
    known = {"language": "python", "test_command": "pytest", "files": ["src/a.py", "test_calc.py"], **context}
    return {"goal": "Fix failing test test_calc.py::test_adds", "allowed_files": ["src/**"], "context": known}


def test_a_controller_that_knows_no_patterns_may_change_what_they_mean_all_the_same(play: Play, remote: Repo) -> None:
    view = play({"implement-fix": {"write": {"src/deep/new.py": "1\n"}}}, **permitted())

    assert view.state == "COMPLETED", view.halt
    assert view.branch in branches(remote)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["src/a.py", "src/migrations/1.py"], "riskier than MED: src/migrations/1.py"),
        (["src/a.py", "src/conftest.py"], "that the goal does not allow: src/conftest.py"),
        (["src/a.py", "docs/a.md"], "that the goal does not allow: docs/a.md"),
        ([f"src/{name}.py" for name in "abcdef"], "changes 6 files, allowed are 5"),
        (["src/a.py"], "creates 1 files, and the outcomes reported 0: src/a.py"),
    ],
)
def test_what_a_controller_hides_of_its_change_is_found_before_it_is_delivered(
    play: Play, remote: Repo, files: list[str], told: str
) -> None:
    lie = {"touched_files": ["src/a.py"], "created_files": [], "patterns": True}

    view = play({"implement-fix": {"write": dict.fromkeys(files, "1\n"), "report": lie}}, **permitted())

    assert view.branch is None
    assert told in (view.undelivered or "")
    assert branches(remote) == ["main"]
