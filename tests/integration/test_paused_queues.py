"""`planner pause --queue`: no step of a queue is handed out, of any plan, until it is resumed or the time is over."""

from __future__ import annotations

import time
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.times import rfc3339
from tasks.handlers.bulk_commands import PAUSED_QUEUE
from tests.support.planner import STEPS, Planner
from worker.cli.commands.app import app
from worker.store import keys

P0 = keys.Partition(0)
GPU = P0.steps("gpu")
TWO_QUEUES = [
    {**STEPS[0], "queue": "gpu"},
    {"step_id": "other", "title": "Other", "intent": "Other", "verify": "pytest"},
]


@pytest.fixture
def planner(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Planner:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "160")
    return Planner(redis_url)


def order(planner: Planner, name: str, **more: Any) -> None:
    """Have a command about the queue `gpu` obeyed, and every plan that it reminds of itself looked at."""
    said = {"command_id": f"c-{time.monotonic_ns()}", "command": name, "scope": "queue", "target": "gpu"}
    planner.client.xadd(keys.COMMANDS, {"data": codec.dumps({**said, "actor": "ada", "reason": "drivers", **more})})
    planner.container.bulk_commands.drain()
    planner.container.context(0).engine.sweep("test")


def let_pause_be_over(planner: Planner) -> None:
    """Have the pause of the queue `gpu` end a moment ago."""
    name = f"{PAUSED_QUEUE}gpu"
    record = codec.loads(planner.client.hget(P0.scopes, name) or b"")
    assert record["until"] > 1000 * time.time()
    planner.client.hset(P0.scopes, name, codec.dumps({**record, "until": int(1000 * time.time()) - 1}))


def cli(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def shown(plan_id: str) -> dict[str, Any]:
    found: dict[str, Any] = codec.loads(cli("show", plan_id, "--json").stdout)
    return found


def times(planner: Planner, plan_id: str) -> dict[str, int]:
    found: dict[str, int] = codec.loads(planner.client.hget(P0.plan(plan_id).plan, "live") or b"")["times"]
    return found


def test_a_paused_queue_gets_no_step_and_others_go_on(planner: Planner) -> None:
    order(planner, "pause")
    plan_id = planner.submit(steps=TWO_QUEUES, limits={"max_parallel": 2})

    look, other = shown(plan_id)["steps"]
    assert (look["state"], other["state"]) == ("PENDING", "ACTIVE")
    assert look["activity"]["kind"] == "held"
    assert "queue gpu is paused by ada: drivers" in cli("show", plan_id).stdout
    assert not planner.client.exists(GPU)
    (queue,) = [each for each in codec.loads(cli("queues", "--json").stdout) if each["queue"] == "gpu"]
    assert (queue["paused_by"], queue["length"]) == ("ada: drivers", 0)
    assert "by ada: drivers" in cli("queues").stdout
    order(planner, "pause", reason="")
    assert shown(plan_id)["steps"][0]["activity"]["reason"] == "queue gpu is paused by ada"

    planner.report("other", plan_id)
    assert planner.client.xlen(GPU) == 0
    order(planner, "resume")
    assert planner.client.xlen(GPU) == 1
    planner.report("look", plan_id)
    assert shown(plan_id)["state"] == "COMPLETED"


def test_the_wall_clock_stands_still_while_all_that_is_left_waits_for_a_paused_queue(planner: Planner) -> None:
    order(planner, "pause")
    plan_id = planner.submit(steps=TWO_QUEUES, limits={"max_parallel": 2})
    assert "still" not in times(planner, plan_id)

    planner.report("other", plan_id)

    assert "still" in times(planner, plan_id)
    line = codec.loads(planner.client.lrange(P0.plan(plan_id).log, -1, -1)[0])
    assert line["paused_queues"] == ["gpu"]
    order(planner, "resume")
    assert "still" not in times(planner, plan_id)


def test_what_was_handed_out_stays_and_what_comes_after_it_waits(planner: Planner) -> None:
    plan_id = planner.submit(steps=[{**step, "queue": "gpu"} for step in STEPS])
    assert planner.client.xlen(GPU) == 1
    order(planner, "pause")
    found: Any = planner.client.xrange(GPU)
    spec = codec.loads(found[0][1][b"data"])
    beat = ("planner_heartbeat", 1, spec["lease_key"], spec["attempt"], spec["lease"], "ctl-1")
    assert planner.client.fcall(*beat)[0] == b"continue"

    planner.report("look", plan_id, attempt=1, lease=spec["lease"])

    assert planner.client.xlen(GPU) == 0
    assert [step["state"] for step in shown(plan_id)["steps"]] == ["DONE", "PENDING", "BLOCKED"]


def test_a_pause_with_an_end_is_over_then(planner: Planner) -> None:
    plan_id = planner.submit(steps=[{**step, "queue": "gpu"} for step in STEPS])
    until = int(time.time()) + 30
    order(planner, "pause", until=rfc3339(1000 * until))
    planner.report("look", plan_id)
    assert planner.client.xlen(GPU) == 0
    assert planner.client.zscore(P0.timers, plan_id) == 1000 * until

    let_pause_be_over(planner)
    planner.client.zadd(P0.timers, {plan_id: 1})
    planner.container.context(0).engine.sweep("test")
    assert planner.client.xlen(GPU) == 1
