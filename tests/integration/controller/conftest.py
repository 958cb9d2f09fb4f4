"""A controller that runs as threads of the test, against a real server and a real repository."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.support.controlling import AGENT, Planner, Repo
from worker.agents.agent import command_agent
from worker.client import redis_steps
from worker.controller import ControllerConfig, run
from worker.sandbox import sandbox
from worker.sandbox.paths import PathGrant


@pytest.fixture
def planner(redis: Redis) -> Planner:
    return Planner.ready(redis)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "shop")


@pytest.fixture
def config(
    redis_url: str, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ControllerConfig]:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "trees").mkdir()
    # Agents of these tests tell their process's number, which bubblewrap would hide.
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda *_: None)
    # What stands beside this interpreter comes first, as under `uv run`: the pytest of a step is the one that runs us.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    command = f"{sys.executable} -IS {tmp_path / 'agent.py'}"

    def make(**changes: Any) -> ControllerConfig:
        agent = command_agent(changes.pop("command", command))
        usual: dict[str, Any] = {"redis_url": redis_url, "workdir": repo.path, "agent": agent, "heartbeat_s": 0.05}
        usual |= {"worktrees": tmp_path / "trees", "tool_paths": (PathGrant(tmp_path, writable=True),)}
        return ControllerConfig(**usual | changes)

    return make


@pytest.fixture
def start(
    config: Callable[..., ControllerConfig], repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., None]]:
    """Start controllers as threads; at the end each must stop cleanly and leave no worktree behind."""
    monkeypatch.setattr(redis_steps, "BLOCK_MS", 50)
    stop, codes, threads = threading.Event(), [], []

    def begin(**changes: Any) -> None:
        thread = threading.Thread(target=lambda: codes.append(run(config(**changes), stop)))
        thread.start()
        threads.append(thread)

    yield begin
    stop.set()
    for thread in threads:
        thread.join(20)
    assert codes == [0] * len(threads)
    assert len(repo.git("worktree", "list").splitlines()) == 1
    assert not list((tmp_path / "trees").iterdir())
