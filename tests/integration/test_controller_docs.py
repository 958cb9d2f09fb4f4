"""The loops of docs/controller-loops.md run as they are printed there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from schemas.outcome import Outcome
from tests.conftest import wait_until
from tests.support.programs import NODE_MODULES, needs
from worker.store import functions

ROOT = Path(__file__).parents[2]
PLAN = "plan_3c-0199aaaabbbbccccddddeeeeffff0000"
STREAM = "planner:{0}:steps:default"
OUTCOMES = "planner:{0}:outcomes"

# Fails where the intent says so; otherwise tells of the file that it was allowed to touch.
AGENT = """
import json, os, pathlib, sys, time
spec = json.load(sys.stdin)
if spec["intent"] == "fail": sys.exit(3)
if spec["intent"] == "wait": pathlib.Path("pid").write_text(str(os.getpid())); time.sleep(99)
print(json.dumps({"success": True, "touched_files": spec["allowed_files"], "metrics": {"tokens_used": 7}}))
"""

LANGUAGES = {"python": sys.executable, "js": "node", "sh": "sh"}
NEEDS = {"js": needs("node", "npm:ioredis"), "sh": needs("redis-cli")}


def printed(language: str) -> str:
    """Return the last block of `language`: the loop."""
    block = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return str(block.findall((ROOT / "docs/controller-loops.md").read_text())[-1])


def hasty(loop: str) -> str:
    """Let a loop renew its lease ten times a second."""
    return loop.replace("20000", "100").replace("timeout=20", "timeout=0.1").replace("sleep 20", "sleep 0.1")


@pytest.fixture(params=[pytest.param(each, marks=NEEDS.get(each, ())) for each in LANGUAGES])
def start(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Start the loop of one language as a process; it is ended after the test, with its children."""
    (tmp_path / "loop").write_text(hasty(printed(request.param)))
    (tmp_path / "agent.py").write_text(AGENT)
    agent = f"{sys.executable} -IS {tmp_path / 'agent.py'}"
    environment = os.environ | {"PLANNER_REDIS_URL": redis_url, "AGENT": agent, "NODE_PATH": str(NODE_MODULES)}
    processes = []

    def begin() -> None:
        argv = [LANGUAGES[request.param], str(tmp_path / "loop")]
        processes.append(subprocess.Popen(argv, cwd=tmp_path, env=environment, start_new_session=True))

    yield begin
    for process in processes:
        assert process.poll() is None, "the loop ended by itself"
        os.killpg(process.pid, 9)
        process.wait(60)


def send(redis: Redis, step_id: str, **changes: Any) -> str:
    """Publish a spec as the planner does; returns its lease key."""
    lease_key = f"planner:{{0}}:lease:{PLAN}:{step_id}"
    spec = {
        "step_id": step_id, "intent": "a \"quoted\" 'intent' % $HOME \\n ü", "allowed_files": ["src/a.py"],
        "plan_id": PLAN, "attempt": 2, "mode": "patch", "context": {"documents": {"lease": "", "reply_to": "x"}},
        "lease": f"lease-of-{step_id}", "lease_key": lease_key, "deadline": "2999-01-01T00:00:00Z",
        "reply_to": OUTCOMES,
    }  # fmt: skip
    redis.hset(lease_key, mapping={"attempt": 2, "lease": f"lease-of-{step_id}", "tokens": 9})
    redis.xadd(STREAM, {"data": codec.dumps(spec | changes)})
    return lease_key


def outcomes(redis: Redis) -> dict[str, Outcome]:
    """Return what was published, by step; the ids may stand in the entry's fields."""
    answer: Any = redis.xrange(OUTCOMES)
    found = [
        codec.loads(fields[b"data"]) | {key.decode(): value.decode() for key, value in fields.items() if key != b"data"}
        for _, fields in answer
    ]
    return {outcome["step_id"]: Outcome.model_validate(outcome) for outcome in found}


def pending(redis: Redis) -> int:
    answer: Any = redis.xpending(STREAM, "controllers")
    return int(answer["pending"])


def test_the_printed_loop_claims_works_publishes_and_acknowledges(redis: Redis, start: Callable[[], None]) -> None:
    redis.function_load(functions.source("planner_leases"))
    redis.xgroup_create(STREAM, "controllers", "0", mkstream=True)
    start()
    lease_key = send(redis, "good")
    send(redis, "stale", lease="of-another-attempt")
    send(redis, "bad", intent="fail")

    wait_until(lambda: set(outcomes(redis)) >= {"good", "bad"}, what="both outcomes")

    good, bad = outcomes(redis)["good"], outcomes(redis)["bad"]
    assert good.success
    assert good.touched_files == ("src/a.py",)
    assert good.metrics
    assert good.metrics.tokens_used == 7
    assert (good.plan_id, good.attempt, good.lease) == (PLAN, 2, "lease-of-good")
    assert not bad.success
    assert bad.error_message == "exit 3"
    assert "stale" not in outcomes(redis)
    assert redis.hexists(lease_key, "controller")
    wait_until(lambda: pending(redis) == 0, what="acknowledged")


def test_the_printed_loop_waits_for_its_stream_and_works_without_heartbeats(
    redis: Redis, start: Callable[[], None]
) -> None:
    redis.config_resetstat()
    start()
    wait_until(lambda: redis.info("commandstats").get("cmdstat_xreadgroup"), what="asked for a stream")
    redis.xgroup_create(STREAM, "controllers", "0", mkstream=True)
    send(redis, "good")

    wait_until(lambda: outcomes(redis), what="the outcome")

    assert outcomes(redis)["good"].success


def test_the_printed_loop_gives_up_an_attempt_that_is_taken_back(
    redis: Redis, start: Callable[[], None], tmp_path: Path
) -> None:
    redis.function_load(functions.source("planner_leases"))
    redis.xgroup_create(STREAM, "controllers", "0", mkstream=True)
    start()
    lease_key = send(redis, "wait", intent="wait")
    pid = wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), what="the agent works")

    redis.hset(lease_key, "action", "cancel")
    send(redis, "good")

    wait_until(lambda: outcomes(redis), what="the outcome of the next step")
    assert set(outcomes(redis)) == {"good"}
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the agent is gone")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_loop_is_short_enough_to_be_read(language: str) -> None:
    assert len(printed(language).splitlines()) <= 55
