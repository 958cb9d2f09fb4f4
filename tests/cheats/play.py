"""Plays rows: a planner in this process, the real controller in a thread, an agent that writes what a row says."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

from schemas.plan import PlanView
from tests.cheats.cheat import Cheat, Surroundings
from tests.conftest import wait_until
from tests.support.committing import commit, git
from tests.support.planner import Planner, repeating
from worker.agents.agent import command_agent
from worker.controller import ControllerConfig, run
from worker.controller.holdout import digest_of
from worker.sandbox.paths import PathGrant
from worker.store.keys import Partition

ENDED = ("COMPLETED", "HALTED", "REJECTED")
NONE: Mapping[str, str] = MappingProxyType({})
LIMITS = {"identical_failures": 2, "consecutive_failures": 3}
MOST_SECONDS = 240
AGENT = """
import json, pathlib, sys
spec = json.load(sys.stdin)
if spec["mode"] == "patch":
    writes = json.loads((pathlib.Path(sys.argv[1]) / spec["context"]["base_sha"]).read_text())
    for path, text in writes.items():
        pathlib.Path(path).unlink(missing_ok=True)
        if text is not None:
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
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
        """Name the categories of the failures, as the controller reports them or the planner judges them."""
        reported = {each["failure_evidence"]["category"] for each in self.outcomes if not each["success"]}
        refused = self.view.halt is not None and self.view.halt.rule == "integrity"
        return reported | ({"INTEGRITY"} if refused else set())

    @property
    def findings(self) -> dict[str, int]:
        """Count what the controller found in the last change, by kind."""
        told = [each["integrity"]["counts"] for each in self.outcomes if each.get("integrity")]
        return dict(told[-1]) if told else {}

    @property
    def is_completed(self) -> bool:
        """Whether the plan came to its end."""
        return self.view.state == "COMPLETED"


class Stage:
    """A planner and a repository, in which an agent writes what the row of a goal's commit says."""

    def __init__(self, url: str, home: Path) -> None:
        self.planner, self._root, self._rows, self._held = Planner(url), home / "shop", home / "rows", home / "held"
        self._count = 0
        for folder in (self._root, self._rows, self._held):
            folder.mkdir()
        git(self._root, "init", "--quiet", "--initial-branch=main")

    def play(
        self, at: Surroundings, writes: Mapping[str, str | None], held_out: Mapping[str, str] = NONE, **goal: Any
    ) -> Played:
        """Have a goal about a commit of these surroundings done, to the end of its plan; `held_out` tests judge it."""
        self._count += 1
        if held_out:
            (held := self._held / str(self._count) / "tests").mkdir(parents=True)
            for name, text in held_out.items():
                (held / name).write_text(text)
            goal["holdout"] = digest_of(held.parent)
        for each in self._root.iterdir():
            if each.name != ".git":
                git(self._root, "rm", "-r", "--quiet", each.name)
        base = commit(self._root, {**at.files, "NUMBER": f"{self._count}\n"})
        (self._rows / base).write_text(json.dumps(dict(writes)))
        plan_id = self.planner.submit(**_goal(at, writes, base) | goal)
        view = wait_until(
            lambda: found if (found := self.planner.view(plan_id)).state in ENDED else None,
            timeout=MOST_SECONDS,
            what="the end",
        )
        assert view is not None
        return Played(view, tuple(self._outcomes(plan_id)), tuple(self._said(view)))

    def play_row(self, cheat: Cheat) -> Played:
        """Have a row played."""
        return self.play(cheat.at, cheat.writes, cheat.held_out, **cheat.more)

    def _outcomes(self, plan_id: str) -> Iterator[dict[str, Any]]:
        """Yield the outcomes of a plan, as its log has them."""
        lines: Any = self.planner.client.lrange(Partition(0).plan(plan_id).log, 0, -1)
        for line in lines:
            yield from (said[-1] for what, *said in json.loads(line)["in"] if what == "outcome")

    def _said(self, view: PlanView) -> Iterator[str]:
        entries: Any = self.planner.client.xrange("planner:{0}:events")
        for _, fields in entries:
            event = json.loads(fields[b"data"])
            if event["plan_id"] == view.plan_id and "outcome." in fields[b"type"].decode() and event.get("reason"):
                yield event["reason"]
        for outcome in self._outcomes(view.plan_id):
            if not outcome["success"]:
                yield (outcome.get("failure_evidence") or {}).get("suggestion") or outcome.get("error_message") or ""
        yield from filter(None, (view.doubt, view.halt.reason if view.halt else None))


@contextmanager
def staged(url: str, home: Path) -> Iterator[Stage]:
    """Make a stage with a controller at work, while the block lasts."""
    stage = Stage(url, home)
    (home / "agent.py").write_text(AGENT)
    (home / "trees").mkdir()
    (home / "go").mkdir()
    kept = {"CARGO_HOME": Path.home() / ".cargo", "RUSTUP_HOME": Path.home() / ".rustup"}
    here = {name: str(place) for name, place in kept.items() if place.is_dir()}
    # Plugins of our own environment take pytest seconds to load.
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GOCACHE": str(home / "go"), **here}
    config = ControllerConfig(
        redis_url=url,
        workdir=home / "shop",
        agent=command_agent(f"{sys.executable} -IS {home / 'agent.py'} {home / 'rows'}"),
        heartbeat_s=0.05,
        worktrees=home / "trees",
        holdout=home / "held",
        tool_paths=(PathGrant(home, writable=True), *map(PathGrant, map(Path, here.values()))),
    )
    engine = stage.planner.container.context(0).engine
    with mock.patch.dict(os.environ, variables), repeating(engine.drain), _controlling(config):
        yield stage


def _goal(at: Surroundings, writes: Mapping[str, str | None], base: str) -> dict[str, Any]:
    """Make the goal that repairs a failing test, or one with a step of its own where there is none."""
    allowed = sorted({*at.files, *writes} - at.hidden)
    context: dict[str, Any] = {"base_sha": base, "language": at.language, "files": sorted(at.files)}
    usual = {"allowed_files": allowed, "limits": LIMITS, "steps": None}
    if at.failing:
        context |= {"test_command": at.command, "failing_tests": [at.failing]}
        return {**usual, "goal": "Fix the failing test", "context": context}
    step = {"step_id": "fix", "title": "Fix", "intent": "Fix it", "allowed_files": allowed, "verify": at.command}
    folders = sorted({path.partition("/")[0] + "/**" if "/" in path else path for path in allowed})
    return {**usual, "goal": "Fix the crash", "context": context, "steps": [step], "allowed_files": folders}


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
