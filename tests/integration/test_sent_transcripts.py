"""The output of a real controller's agent, sent as an attachment, kept by a real worker and read at each door."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from schemas import codec
from schemas.api_key import Right
from tests.conftest import RunningWorker, wait_until
from tests.support.controlling import Repo
from tests.support.gateway import running_gateway
from tests.support.page import signed_in
from tests.support.scripted import ENDED
from worker.cli.commands.app import app
from worker.store import queries

pytestmark = pytest.mark.outages

PLANNER = (sys.executable, "-c", "from worker.cli.commands.app import main; main()")
TOKEN = "ghp_" + "a1B2" * 9
MOST_BYTES = 64 * 1024
AGENT = f"""
import json, pathlib, sys
json.load(sys.stdin)
print("I begin with {TOKEN}.")
print("I read calc.py.\\n" * 10_000)
pathlib.Path("calc.py").write_text("def add(a, b):\\n    return a + b\\n")
print("I am done.")
"""
STEP = {
    "step_id": "fix", "title": "Fix the sum", "intent": "Fix it", "allowed_files": ["calc.py"],
    "verify": "pytest -q test_calc.py",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("way", ["redis", "http"])
def test_the_output_of_an_agent_is_read_elsewhere(
    planner_worker: RunningWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    repo, agent, client = Repo(tmp_path / "shop"), tmp_path / "agent.py", planner_worker.redis
    agent.write_text(AGENT)
    context = {"repo": f"acme/{way}", "base_sha": repo.git("rev-parse", "HEAD")}
    goal: dict[str, Any] = {"goal": "Fix the sum", "goal_id": way, "allowed_files": ["calc.py"], "context": context}
    client.xadd("planner:goals", {"data": codec.dumps({**goal, "steps": [STEP]})})
    words = ["controller", "--exec", f"{sys.executable} {agent}", "--workdir", str(repo.path), "--sandbox", "off"]
    with running_gateway(planner_worker.url) as gateway:
        at = {"PLANNER_REDIS_URL": planner_worker.url}
        if way == "http":
            at = {"PLANNER_URL": gateway.url, "PLANNER_API_KEY": gateway.key(Right.CONTROLLER)}
        variables = {**os.environ, **at, "PLANNER_STATE_DIR": str(tmp_path / "state")}
        with subprocess.Popen([*PLANNER, *words, "--send-transcripts"], env=variables, cwd=tmp_path) as process:
            try:
                found = wait_until(lambda: queries.goal(client, way), what="the goal is planned")
                assert found
                wait_until(lambda: queries.summary(client, 1, found.plan_id), what="the plan is made")
                plan_id = found.plan_id

                def state() -> str:
                    view = queries.summary(client, 1, plan_id)
                    return view.state if view and view.state in ENDED else ""

                assert wait_until(state, timeout=180, what="the end of the plan") == "COMPLETED"
            finally:
                process.terminate()
        viewer = gateway.client(Right.VIEWER)
        path = f"/v1/plans/{plan_id}/steps/fix/transcript?attempt=1"
        wait_until(lambda: viewer.get(path).status_code == 200, timeout=60, what="the transcript is kept")
        sent = viewer.get(path).content
        page = signed_in(gateway, Right.VIEWER).get(f"/plans/{plan_id}/steps/fix").text

        monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path / "elsewhere"))
        monkeypatch.setenv("PLANNER_URL", gateway.url)
        monkeypatch.setenv("PLANNER_API_KEY", gateway.key(Right.VIEWER))
        monkeypatch.delenv("PLANNER_REDIS_URL", raising=False)
        shown = CliRunner().invoke(app, ["show", plan_id, "--transcript", "fix"])

    assert f'<a href="{path}">' in page
    assert (shown.exit_code, shown.stdout_bytes) == (0, sent)
    assert MOST_BYTES // 2 < len(sent) <= MOST_BYTES
    assert sent.startswith(b"I begin with ")
    assert sent.rstrip().endswith(b"I am done.")
    assert b"bytes left out" in sent
    assert TOKEN.encode() not in sent
