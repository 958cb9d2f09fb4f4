"""`planner controller` as compose.yaml runs it: uid 1000, no capabilities, no user namespaces, its URL in a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.conftest import connect
from tests.support import ordinary
from tests.support.controlling import AGENT, PYTEST, Planner, Repo
from tests.support.programs import running
from worker.host.embedded_server import valkey
from worker.sandbox import landlock

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
BIN = Path(sys.executable).parent
WORD = "a-very-secret-word"

SPY = """
import glob
seen, parents, pid = {}, [], os.getppid()
while pid > 1:
    parents.append(pid)
    try: pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    except OSError: break
for path in [f"/proc/{pid}/{face}" for pid in parents for face in ("environ", "mem", "fd/0")] + PATHS:
    try: seen[path] = open(path, "rb").read(100000).decode(errors="replace")
    except OSError: pass
seen["own"] = str(dict(os.environ))
found = [path for path, text in seen.items() if "a-very-" + "secret-word" in text]
report(output={"opened": sorted(seen), "found": found, "parents": len(parents)})
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="ordinary-") as name:
        yield Path(name)


@pytest.fixture
def planner(folder: Path) -> Iterator[Planner]:
    with valkey(folder / "data", password=WORD) as url, connect(url) as redis:
        (folder / "url").touch(mode=0o600)
        (folder / "url").write_text(url)
        yield Planner.ready(redis)


@pytest.mark.parametrize("way", ["file", pytest.param("variable", marks=pytest.mark.outages)])
def test_an_agent_of_a_controller_finds_no_secret_of_its_and_does_its_work(
    planner: Planner, folder: Path, way: str
) -> None:
    repo = Repo(folder / "shop")
    (folder / "agent.py").write_text(AGENT)
    (folder / "tmp").mkdir()
    secret = {"file": {"PLANNER_REDIS_URL_FILE": str(folder / "url")}}
    secret["variable"] = {"PLANNER_REDIS_URL": (folder / "url").read_text()}
    for path in (folder, *folder.rglob("*")):
        os.chown(path, ordinary.UID, ordinary.UID)
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder / "tmp"), **secret[way]}
    agent = f"{sys.executable} -IS {folder / 'agent.py'}"
    argv = [str(BIN / "planner"), "controller", "--exec", agent, "--workdir", str(repo.path)]
    fixed = "write('calc.py', 'def add(a, b):\\n    return a + b\\n')"
    planner.send("spy", mode="read_only", intent=f"PATHS = {[str(folder / 'url'), str(folder / 'agent.py')]}\n{SPY}")
    planner.send("fix", intent=fixed, allowed_files=["calc.py"], verify_tools=[PYTEST])

    with running([*ordinary.prefix(), *argv], env, folder / "log", folder) as controller:
        spied, work = planner.outcome("spy"), planner.outcome("fix")

    ready: dict[str, Any] = json.loads((folder / "log").read_text().splitlines()[0])
    told: Any = spied.output
    assert (ready["event"] == "sandbox_ready") == bool(landlock.abi())
    assert (ready["uid"], ready["landlock"], ready["bwrap"]) == (ordinary.UID, landlock.abi(), False)
    assert spied.success, spied
    assert told["parents"] >= 2
    assert told["found"] == []
    assert not landlock.abi() or told["opened"] == [str(folder / "agent.py"), "own"]
    assert work.success, work.error_message
    assert controller.returncode == 0
