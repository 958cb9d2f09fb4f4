"""Claude Code itself, as npm has it, asks for work over MCP; its model is a server of ours.

It is looked for in PLANNER_TEST_NODE_MODULES (`npm install @anthropic-ai/claude-code`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas.api_key import Right
from tests.support.gateway import Gateway
from tests.support.model_server import Asked, Says, model_server
from tests.support.programs import NODE_MODULES, needs
from worker.store.keys import GOALS

pytestmark = [pytest.mark.outages, pytest.mark.long, needs("npm:@anthropic-ai/claude-code")]
TOOL = "mcp__planner__submit_goal"
GOAL = {"goal": "Fix b", "allowed_files": ["b.py"], "goal_id": "from-claude", "wait_s": 0}


def configured(way: str, gateway: Gateway, key: str) -> dict[str, Any]:
    """What docs/mcp.md says to paste."""
    if way == "http":
        headers = {"Authorization": "Bearer ${PLANNER_API_KEY}"}
        return {"type": "http", "url": f"{gateway.url}/mcp", "headers": headers}
    script = "from worker.start import planner; planner()"
    environment = {"PLANNER_URL": gateway.url, "PLANNER_API_KEY": key, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return {"command": sys.executable, "args": ["-c", script, "mcp"], "env": environment}


@pytest.mark.parametrize("way", ["http", "stdio"])
def test_claude_code_hands_in_a_goal(way: str, gateway: Gateway, redis: Redis, tmp_path: Path) -> None:
    key = gateway.key(Right.PRODUCER, Right.VIEWER)
    servers = {"planner": configured(way, gateway, key)}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def model(asked: Asked) -> Says:
        heard = asked.results[-1] if asked.results else ""
        if "still connecting" in heard and len(asked.results) < 8:
            return Says(tool="WaitForMcpServers")
        return Says("Handed in.") if "PENDING" in heard else Says(tool=TOOL, given=GOAL)

    with model_server(model) as models:
        environment = {
            "PATH": f"{NODE_MODULES / '.bin'}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "ANTHROPIC_BASE_URL": models.url,
            "ANTHROPIC_API_KEY": "a-key",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "PLANNER_API_KEY": key,
        }
        words = ["--print", "--strict-mcp-config", "--mcp-config", str(tmp_path / "mcp.json"), "--allowedTools", TOOL]
        done = subprocess.run(
            ["claude", *words, "--", "Have b fixed"],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Handed in." in done.stdout
    assert '"PENDING"' in models.asked[-1].results[-1]
    published: Any = redis.xrange(GOALS)
    assert [json.loads(fields[b"data"])["goal_id"] for _, fields in published] == ["from-claude"]
