"""The controllers of docs/http.md run as they are printed there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from schemas.api_key import Right
from tests.conftest import wait_until
from tests.support.documented import DOCS
from tests.support.engine import a_goal, at_work, plan
from tests.support.gateway import running_gateway
from tests.support.programs import needs
from tests.support.stored import state
from worker.process.container import Container

AGENT = """
import json, sys
print(json.dumps({"success": True, "touched_files": json.load(sys.stdin)["allowed_files"]}))
"""


@pytest.mark.parametrize(
    ("language", "program"),
    [("python", sys.executable), pytest.param("bash", "bash", marks=needs("bash", "curl", "jq"))],
)
def test_a_controller_by_hand_does_a_plan(
    language: str, program: str, here: Container, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    (loop,) = re.findall(rf"```{language}\n(.*?)```", (DOCS / "http.md").read_text(), re.DOTALL)
    (tmp_path / "loop").write_text(loop)
    (tmp_path / "agent.py").write_text(AGENT)
    (plan_id,) = plan(here, redis, a_goal(2))
    with running_gateway(redis_url) as gateway, at_work(here):
        said = {"PLANNER_URL": gateway.url, "PLANNER_API_KEY": gateway.key(Right.CONTROLLER)}
        environment = {**os.environ, **said, "AGENT": f"{sys.executable} -IS {tmp_path / 'agent.py'}"}
        process = subprocess.Popen([program, "loop"], cwd=tmp_path, env=environment, start_new_session=True)
        try:
            wait_until(lambda: state(redis, plan_id) == "COMPLETED", timeout=60, what="the plan's end")
            assert process.poll() is None
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
