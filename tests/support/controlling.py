"""A controller's surroundings, played by a test: the planner's side of the wire, a repository with a bug, an agent."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redis import Redis

from schemas import codec
from schemas.outcome import FailureEvidence, Outcome
from tests.conftest import wait_until
from worker.sandbox.process import Abandoned
from worker.store import functions

PLAN = "plan_3c-0199aaaabbbbccccddddeeeeffff0000"
BRANCH = f"planner/{PLAN}"
STREAM = "planner:{0}:steps:default"
OUTCOMES = "planner:{0}:outcomes"


# The agent does what the step's intent says, in Python.
AGENT = """
import json, os, pathlib, subprocess, sys, time
spec = json.load(sys.stdin)
def write(path, text): pathlib.Path(path).write_text(text)
def git(*args): subprocess.run(["git", *args], check=True, capture_output=True)
def commit(): git("-c", "user.name=a", "-c", "user.email=a@a", "commit", "--all", "--allow-empty", "-m", "a")
def report(**fields): print("working...\\n" + json.dumps(fields))
def wait_for(path):
    while not os.path.exists(path): time.sleep(0.01)
def meet(path):
    pathlib.Path(path).touch()
    while len(list(pathlib.Path(path).parent.iterdir())) < 2: time.sleep(0.01)
exec(spec["intent"])
"""


FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "words.py": "def greet(name):\n    return name\n",
    "test_calc.py": "from calc import add\n\n\ndef test_adds():\n    assert add(2, 2) == 4\n",
}
FIX = "write('calc.py', 'def add(a, b):\\n    return a + b\\n')"
PYTEST = {
    "tool": "pytest", "argv": ["pytest", "-q", "--disable-plugin-autoload", "test_calc.py"],  # they load for a second
    "timeout_s": 60, "pass_codes": [0],
}  # fmt: skip


class Lease:
    """A lease that is held, or lost."""

    held = True

    def confirm(self) -> None:
        if not self.held:
            raise Abandoned("taken")


class Planner:
    """The planner's side of the wire, by hand."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis

    @classmethod
    def ready(cls, redis: Redis) -> Planner:
        """Make one that hears heartbeats, and has controllers wait for its specs."""
        redis.function_load(functions.source("planner_leases"))
        planner = cls(redis)
        planner.listen()
        return planner

    def listen(self, stream: str = STREAM) -> None:
        self.redis.xgroup_create(stream, "controllers", "0", mkstream=True)

    def spec(self, step_id: str, **changes: Any) -> dict[str, Any]:
        deadline = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        return {
            "step_id": step_id, "title": f"Do {step_id}", "intent": "", "allowed_files": [], "mode": "patch",
            "verify_tools": [], "context": {"base_sha": None}, "limits": {"max_diff_lines": 200, "tokens": 20000},
            "plan_id": PLAN, "attempt": 1, "lease": f"lease-of-{step_id}", "deadline": deadline, "reply_to": OUTCOMES,
            "lease_key": f"planner:{{0}}:lease:{PLAN}:{step_id}", "a_field_of_the_future": True,
        } | changes  # fmt: skip

    def send(self, step_id: str, stream: str = STREAM, **changes: Any) -> dict[str, Any]:
        spec = self.spec(step_id, **changes)
        self.redis.hset(
            spec["lease_key"], mapping={"attempt": spec["attempt"], "lease": f"lease-of-{step_id}", "tokens": 9}
        )
        self.redis.xadd(stream, {"data": codec.dumps(spec)})
        return spec

    def outcomes(self) -> list[Outcome]:
        return [Outcome.model_validate_json(fields[b"data"]) for _, fields in self.entries()]

    def entries(self) -> list[Any]:
        answer: Any = self.redis.xrange(OUTCOMES)
        return list(answer)

    def outcome(self, step_id: str) -> Outcome:
        return wait_until(
            lambda: next((outcome for outcome in self.outcomes() if outcome.step_id == step_id), None),
            timeout=60,
            what=f"outcome of {step_id}",
        )  # type: ignore[return-value]

    def pending(self, stream: str = STREAM) -> int:
        answer: Any = self.redis.xpending(stream, "controllers")
        return int(answer["pending"])


class Repo:
    """A real repository with a genuine bug."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        for name, text in FILES.items():
            (path / name).write_text(text)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", ".")
        self.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "Begin")

    @classmethod
    def at(cls, path: Path) -> Repo:
        """Take the repository that is at `path`."""
        found = cls.__new__(cls)
        found.path = path
        return found

    def git(self, *args: str) -> str:
        return subprocess.run(["git", *args], cwd=self.path, check=True, capture_output=True, text=True).stdout.strip()

    def commit_on(self, branch: str, path: str, text: str, message: str = "t") -> str:
        """Commit one file on a branch without touching the checkout, as another controller would."""
        blob = subprocess.run(["git", "hash-object", "-w", "--stdin"], cwd=self.path, input=text, check=True,
                              capture_output=True, text=True).stdout.strip()  # fmt: skip
        with TemporaryDirectory() as folder:
            index = {**os.environ, "GIT_INDEX_FILE": f"{folder}/index"}
            for words in (["read-tree", branch], ["update-index", "--add", "--cacheinfo", f"100644,{blob},{path}"]):
                subprocess.run(["git", *words], cwd=self.path, check=True, env=index)
            made = subprocess.run(["git", "write-tree"], cwd=self.path, check=True, capture_output=True, env=index)
        tree = made.stdout.decode().strip()
        commit = self.git("-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", tree, "-p", branch, "-m", message)
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def landed(self) -> list[str]:
        """Name the files that the plan's branch changes."""
        return self.git("diff", "--name-only", "main", BRANCH).splitlines()


def bare(repo: Repo, name: str) -> Repo:
    """Clone a repository as a bare remote, which has no checkout."""
    place = repo.path.parent / "remotes" / name
    place.parent.mkdir(exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", str(repo.path), str(place)], check=True)
    return Repo.at(place)


def clone_with(tmp_path: Path, name: str) -> Path:
    """Wait until an agent has written the file `name`, and return its clone."""
    found = wait_until(lambda: list((tmp_path / "trees").glob(f"*/clone/*/{name}")), what=f"{name} in a clone")
    return found[0].parent


def evidence(outcome: Outcome) -> FailureEvidence:
    assert not outcome.success
    assert outcome.failure_evidence
    return outcome.failure_evidence
