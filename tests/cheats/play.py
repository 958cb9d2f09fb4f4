"""Plays a row: a planner in this process, the real controller in a thread, an agent that writes what the row says."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.plan import PlanView
from tests.cheats.cheat import Surroundings
from tests.conftest import wait_until
from tests.support.committing import commit, git
from tests.support.planner import Planner, repeating
from worker.agents.agent import command_agent
from worker.controller import ControllerConfig, run
from worker.sandbox.paths import PathGrant
from worker.store.keys import Partition

ENDED = ("COMPLETED", "HALTED", "REJECTED")
LIMITS = {"identical_failures": 2, "consecutive_failures": 3}
AGENT = """
import json, pathlib, sys
spec = json.load(sys.stdin)
if spec["mode"] == "patch":
    for path, text in json.loads(pathlib.Path(sys.argv[1]).read_text()).items():
        pathlib.Path(path).unlink(missing_ok=True)
        if text is not None:
            pathlib.Path(path).write_text(text)
print(json.dumps({"tokens_used": 1000, "output": "done"}))
"""


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a plan: how it is shown, the outcomes of its attempts, and what was said about them."""

    view: PlanView
    outcomes: tuple[Mapping[str, Any], ...]
    said: tuple[str, ...]  # reasons of events about outcomes, failures and what `show` says in doubt

    @property
    def categories(self) -> set[str]:
        """Name the categories of the failures."""
        return {each["failure_evidence"]["category"] for each in self.outcomes if not each["success"]}


def play(url: str, at: Surroundings, writes: Mapping[str, str | None], home: Path, **goal: Any) -> Played:
    """Have an agent that `writes` these files do the plan of a goal, to its end."""
    root = home / "shop"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    base = commit(root, dict(at.files))
    (home / "agent.py").write_text(AGENT)
    (home / "writes.json").write_text(json.dumps(dict(writes)))
    (home / "trees").mkdir()
    planner = Planner(url)
    body = {
        "goal": "Fix the failing test",
        "allowed_files": sorted({*at.files, *writes} - {"package.json"}),
        "limits": LIMITS,
        "steps": None,
        "context": {
            "base_sha": base,
            "language": at.language,
            "test_command": at.command,
            "failing_tests": [at.failing],
            "files": sorted(at.files),
        },
    }
    config = ControllerConfig(
        redis_url=url,
        workdir=root,
        agent=command_agent(f"{sys.executable} -IS {home / 'agent.py'} {home / 'writes.json'}"),
        heartbeat_s=0.05,
        worktrees=home / "trees",
        tool_paths=(PathGrant(home, writable=True),),
    )
    engine = planner.container.context(0).engine
    with repeating(engine.drain), _controlling(config):
        plan_id = planner.submit(**body | goal)
        view = wait_until(
            lambda: found if (found := planner.view(plan_id)).state in ENDED else None, timeout=120, what="the end"
        )
    assert view is not None
    return Played(view, tuple(_outcomes(planner, plan_id)), tuple(_said(planner, view)))


@contextmanager
def _controlling(config: ControllerConfig) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=lambda: run(config, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


def _outcomes(planner: Planner, plan_id: str) -> Iterator[dict[str, Any]]:
    """Yield the outcomes of a plan, as its log has them."""
    lines: Any = planner.client.lrange(Partition(0).plan(plan_id).log, 0, -1)
    for line in lines:
        yield from (said[-1] for what, *said in json.loads(line)["in"] if what == "outcome")


def _said(planner: Planner, view: PlanView) -> Iterator[str]:
    entries: Any = planner.client.xrange("planner:{0}:events")
    for _, fields in entries:
        event = json.loads(fields[b"data"])
        if "outcome." in fields[b"type"].decode() and event.get("reason"):
            yield event["reason"]
    for outcome in _outcomes(planner, view.plan_id):
        if not outcome["success"]:
            yield (outcome.get("failure_evidence") or {}).get("suggestion") or outcome.get("error_message") or ""
    yield from filter(None, (view.doubt, view.halt.reason if view.halt else None))
