"""A fleet on three hosts: ten controllers, two repositories, one queue, honest agents, and hosts that die."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from redis import Redis

from tests.conftest import running_worker, wait_until
from tests.support.controlling import Repo, bare
from tests.support.messages import publish
from tests.support.stored import plans, state

pytestmark = pytest.mark.outages

PLANS = 40
ROOT = Path(__file__).parents[3]
AGENT = """
import json, sys, time
spec = json.load(sys.stdin)
time.sleep(0.3)
for path in spec["allowed_files"]:
    with open(path, "w") as file:
        file.write({"calc.py": "def add(a, b):\\n    return a + b\\n"}.get(path) or
                   f"def greet(name):\\n    return '{spec['plan_id']} ' + name\\n")
print(json.dumps({"tokens_used": 100}))
"""
TEST = """import unittest\nimport {module}\n
class Test(unittest.TestCase):
    def test(self):
        self.assertTrue({claim})
"""  # pytest takes seconds to begin where ten run at once
STEPS = [
    {"step_id": "fix", "title": "Fix add", "intent": "Fix add", "allowed_files": ["calc.py"],
     "verify": "python -m unittest test_calc"},
    {"step_id": "words", "title": "Greet", "intent": "Greet", "allowed_files": ["words.py"],
     "verify": "python -m unittest test_words"},
    {"step_id": "check", "title": "Check", "intent": "Check", "depends_on": ["fix", "words"],
     "verify": "python -m unittest test_calc test_words"},
]  # fmt: skip


@contextmanager
def host(folder: Path, url: str, count: int, **remotes: Repo) -> Iterator[subprocess.Popen[bytes]]:
    """Run so many controllers on a host that has the repositories of `remotes`; they end with the block."""
    folder.mkdir()
    (folder / "tmp").mkdir()
    tables = (f'[repositories."acme/{name}"]\nurl = "file://{remote.path}"\n' for name, remote in remotes.items())
    (folder / "repos.toml").write_text("".join(tables))
    (folder / "agent.py").write_text(AGENT)
    agent = f"{sys.executable} -IS {folder / 'agent.py'}"
    options = ["--exec", agent, "--repos", str(folder / "repos.toml"), "--count", str(count), "--name", folder.name]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PLANNER_REDIS_URL": url, "TMPDIR": str(folder / "tmp"), "PATH": path}
    with (folder / "log").open("wb") as log:
        words = [str(Path(sys.executable).parent / "planner"), "controller", *options]
        process = subprocess.Popen(words, cwd=ROOT, env=env, stdout=log, stderr=log)
        try:
            yield process
            process.terminate()
            process.wait(60)
        finally:
            process.kill()
            process.wait(60)


@pytest.mark.long
def test_all_plans_of_a_fleet_end_though_two_of_three_hosts_die_and_one_lacks_a_repository(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    repos = {name: Repo(tmp_path / name) for name in ("shop", "till")}
    for repo in repos.values():
        repo.commit_on(
            "main", "test_words.py", "from words import greet\n\n\ndef test_greets():\n    assert greet('a')\n"
        )
        repo.git("reset", "--quiet", "--hard")
    remotes = {name: bare(repo, f"{name}.git") for name, repo in repos.items()}
    before = {name: remote.git("for-each-ref") for name, remote in remotes.items()}
    names = [("shop", "till")[number % 2] for number in range(PLANS)]

    with running_worker(redis_url, tmp_path / "worker.log"), ExitStack() as stack:
        for number, name in enumerate(names):
            files = ["calc.py", "words.py"]
            publish(redis, {"goal": "Fix it", "goal_id": f"g-{number}", "allowed_files": files, "steps": STEPS,
                            "context": {"repo": f"acme/{name}"}})  # fmt: skip
        stack.enter_context(host(tmp_path / "one", redis_url, 4, **remotes))
        dying = [stack.enter_context(host(tmp_path / "two", redis_url, 3, **remotes))]
        dying += [stack.enter_context(host(tmp_path / "three", redis_url, 3, shop=remotes["shop"]))]
        for process in dying:
            least = ended(redis) + 5
            wait_until(partial(has_ended, redis, least), 200, "plans end before a host dies")
            assert process.poll() is None
            process.kill()
        wait_until(partial(has_ended, redis, PLANS), 400, "all plans end")

    made = plans(redis)
    assert {state(redis, plan_id) for plan_id in made} == {"COMPLETED"}
    for plan_id in made:
        [remote] = [each for each in remotes.values() if each.git("for-each-ref", f"refs/planner/{plan_id}")]
        look_at(remote, plan_id)
    for name, repo in repos.items():
        shared = remotes[name].git("for-each-ref", "refs/planner").splitlines()
        assert len(shared) == names.count(name)
        assert set(remotes[name].git("for-each-ref").splitlines()) == {*shared, *before[name].splitlines()}
        assert repo.git("status", "--porcelain") == ""
        assert repo.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"


def ended(redis: Redis) -> int:
    return sum(state(redis, plan_id) in ("COMPLETED", "HALTED") for plan_id in plans(redis))


def has_ended(redis: Redis, least: int) -> bool:
    return ended(redis) >= least


def look_at(remote: Repo, plan_id: str) -> None:
    """See that the branch of a plan holds what its two steps changed, each once, and nothing else."""
    ref = f"refs/planner/{plan_id}"
    steps = remote.git("log", "--format=%(trailers:key=Step,valueonly)", f"main..{ref}").split()
    assert sorted(steps) == ["fix", "words"]
    assert remote.git("diff", "--name-only", "main", ref).splitlines() == ["calc.py", "words.py"]
    assert remote.git("show", f"{ref}:calc.py") == "def add(a, b):\n    return a + b"
    assert plan_id in remote.git("show", f"{ref}:words.py")
