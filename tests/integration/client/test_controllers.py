"""The reference controller over HTTP: a plan to its end, also while its gateway is killed and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import pytest
from pydantic import SecretStr
from redis import Redis

from schemas.api_key import ApiKey, Right
from schemas.plan import PlanView
from tests.conftest import RunningWorker, wait_until
from tests.support.controlling import Repo
from worker.agents.agent import command_agent
from worker.client.http_link import GatewayLink
from worker.client.http_planner import HttpPlanner
from worker.controller import ControllerConfig, run
from worker.host.embedded_server import free_port
from worker.sandbox import sandbox
from worker.sandbox.paths import PathGrant
from worker.settings.settings import Settings
from worker.store import api_keys, queries

PLANNER = [sys.executable, "-c", "from worker.cli.commands.app import main; main()"]
ENDED = ("COMPLETED", "HALTED", "REJECTED")
# Says that it has begun, waits until it may end, and repairs the bug.
AGENT = """
import json, pathlib, sys, time
spec, here = json.load(sys.stdin), pathlib.Path(sys.argv[1])
(here / "began").touch()
while not (here / "go").exists(): time.sleep(0.02)
if spec["allowed_files"]: pathlib.Path("calc.py").write_text("def add(a, b):\\n    return a + b\\n")
"""
STEPS: list[dict[str, Any]] = [
    {
        "step_id": "fix",
        "title": "Fix",
        "intent": "Fix add",
        "allowed_files": ["calc.py"],
        "verify": "pytest test_calc.py",
    },
    {"step_id": "check", "title": "Check", "intent": "Check", "depends_on": ["fix"], "verify": "pytest test_calc.py"},
]  # fmt: skip


class GatewayProcess:
    """A gateway in a process of its own, which can be killed and comes back at the same port."""

    def __init__(self, redis_url: str, log: Path) -> None:
        self._redis_url, self._log, self._port = redis_url, log, free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        known = {name: value for name, value in os.environ.items() if not name.startswith("PLANNER_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*PLANNER, "gateway", "--port", str(self._port)],
                env={**known, "PLANNER_REDIS_URL": self._redis_url},
                stderr=log,
            )
        wait_until(self._is_ready, what="the gateway is ready")

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").is_success
        except httpx.TransportError:
            return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None


class Site:
    """A worker, a gateway, and controllers that know the gateway alone."""

    def __init__(self, redis: Redis, gateway: GatewayProcess, repo: Repo, folder: Path) -> None:
        self.redis, self.gateway, self.repo, self.folder = redis, gateway, repo, folder
        self.queue = f"q-{uuid.uuid4().hex[:8]}"
        rights = (Right.PRODUCER, Right.CONTROLLER, Right.VIEWER)
        key = api_keys.add(redis, ApiKey(key_id=uuid.uuid4().hex[:12], rights=rights, queues=(self.queue,)))
        self.settings = Settings(url=gateway.url, api_key=SecretStr(key))
        self.stop, self.codes, self.threads = threading.Event(), list[int](), list[threading.Thread]()

    def work(self, **changes: Any) -> None:
        """Start a controller."""
        command = f"{sys.executable} -IS {self.folder / 'agent.py'} {self.folder}"
        usual: dict[str, Any] = {
            "gateway": self.settings, "workdir": self.repo.path, "agent": command_agent(command),
            "queues": (self.queue,), "heartbeat_s": 0.2, "worktrees": self.folder / "trees",
            "tool_paths": (PathGrant(self.folder, writable=True),),
        }  # fmt: skip
        config = ControllerConfig(**usual | changes)
        thread = threading.Thread(target=lambda: self.codes.append(run(config, self.stop)))
        thread.start()
        self.threads.append(thread)

    def submit(self) -> str:
        """Hand in a goal over HTTP; returns the plan's id."""
        goal = {"goal": "Fix add", "allowed_files": ["calc.py"], "steps": STEPS, "queue": self.queue}
        link = GatewayLink(self.settings)
        planner = HttpPlanner(link, self.settings)
        answer = planner.verdict(planner.publish(httpx.Request("POST", "/", json=goal).content, None, None), 30)
        link.close()
        assert answer is not None
        assert answer.verdict == "PLANNED", answer
        return answer.plan_id

    def end(self, plan_id: str) -> PlanView:
        """Wait for the end of the plan."""

        def over() -> PlanView | None:
            view = queries.plan(self.redis, 1, plan_id)
            return view if view and view.state in ENDED else None

        found = wait_until(over, timeout=60, what="the end of the plan")
        assert found
        return found

    def close(self) -> None:
        """Stop the controllers, each of which ends well."""
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
        assert self.codes == [0] * len(self.threads)


@pytest.fixture
def site(planner_worker: RunningWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda *_: None)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "trees").mkdir()
    gateway = GatewayProcess(planner_worker.url, tmp_path / "gateway.log")
    gateway.start()
    made = Site(planner_worker.redis, gateway, Repo(tmp_path / "shop"), tmp_path)
    try:
        yield made
    finally:
        made.stop.set()
        (tmp_path / "go").touch()
        for thread in made.threads:
            thread.join(30)
        gateway.end()


def assert_done_once(site: Site, plan_id: str) -> None:
    view = site.end(plan_id)
    assert view.state == "COMPLETED", view.halt
    assert {step.step_id: (step.state, step.attempt) for step in view.steps} == {
        "fix": ("DONE", 1),
        "check": ("DONE", 1),
    }
    shown = site.repo.git("show", f"planner/{plan_id}:calc.py")
    assert "a + b" in shown


@pytest.mark.outages
def test_a_plan_is_done_by_a_controller_that_knows_a_url_and_a_key(site: Site) -> None:
    (site.folder / "go").touch()
    plan_id = site.submit()
    site.work()

    assert_done_once(site, plan_id)
    site.close()


@pytest.mark.outages
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_gateway_that_ends_meanwhile_costs_no_attempt(site: Site, number: signal.Signals) -> None:
    plan_id = site.submit()
    site.work()
    wait_until((site.folder / "began").exists, what="the agent works")

    site.gateway.end(number)
    (site.folder / "go").touch()
    wait_until(lambda: site.repo.git("branch", "--list", f"planner/{plan_id}"), what="the change landed")
    site.gateway.start()

    assert_done_once(site, plan_id)
    site.close()


@pytest.mark.long
@pytest.mark.outages
def test_a_plan_that_is_cancelled_ends_its_agent_and_the_controller_does_the_next_one(site: Site) -> None:
    plan_id = site.submit()
    site.work()
    wait_until((site.folder / "began").exists, what="the agent works")
    key = api_keys.add(site.redis, ApiKey(key_id=uuid.uuid4().hex[:12], rights=(Right.OPERATOR,)))
    door, shown = f"{site.gateway.url}/v1/plans/{plan_id}/commands?wait=10", {"Authorization": f"Bearer {key}"}

    assert httpx.post(door, json={"command": "cancel"}, headers=shown, timeout=15).status_code == 200
    assert site.end(plan_id).state == "HALTED"
    (site.folder / "began").unlink()
    (site.folder / "go").touch()
    assert_done_once(site, site.submit())
    site.close()


@pytest.mark.long
@pytest.mark.outages
def test_who_waits_and_who_watches_hear_of_the_end_after_the_gateway_was_killed(site: Site) -> None:
    goal = {"goal": "Fix add", "allowed_files": ["calc.py"], "steps": STEPS, "queue": site.queue, "goal_id": site.queue}
    (site.folder / "goal.json").write_text(json.dumps(goal))
    with command(site, "submit", "goal.json", "--no-fill", "--wait", "end", "--json") as waits:
        hear(waits.stderr, "step.started")
        with command(site, "watch", site.queue) as watches:
            hear(watches.stdout, "step.started")
            site.gateway.end(signal.SIGKILL)
            hear(waits.stderr, "does not answer")
            site.gateway.start()
            (site.folder / "go").touch()
            site.work()
            out, told = waits.communicate(timeout=60)
            seen, trouble = watches.communicate(timeout=60)

    assert (waits.returncode, watches.returncode) == (0, 0), told + trouble
    assert json.loads(out)["state"] == "COMPLETED"
    assert "answers again." in told
    for text in (told, seen):
        assert [text.count(f" {what} ") for what in ("step.started", "step.done", "plan.completed")] == [1, 2, 1]
    site.close()


def hear(stream: IO[str] | None, word: str) -> None:
    """Read lines until one has the word."""
    assert stream is not None
    assert any(word in line for line in iter(stream.readline, "")), word


@contextmanager
def command(site: Site, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command that asks the gateway."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PLANNER_")}
    assert site.settings.api_key
    env = {**known, "PLANNER_URL": site.gateway.url, "PLANNER_API_KEY": site.settings.api_key.get_secret_value()}
    pipe = subprocess.PIPE
    with subprocess.Popen([*PLANNER, *words], cwd=site.folder, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
