"""A plan is one trace, from the request that brought its goal to the last outcome, over real processes and OTLP."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from schemas import codec
from schemas.api_key import ApiKey, Right
from schemas.traceparent import read_traceparent
from tests.conftest import running_worker, wait_until
from tests.support.collector import Collector, TakenSpan, running_collector
from tests.support.drafting import environment
from tests.support.llm_server import Reply, llm_server
from tests.support.programs import running
from tests.support.stored import state
from worker.host.embedded_server import free_port
from worker.store import api_keys
from worker.store.keys import GOALS, Partition

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET = "hunter2-of-the-goal"
LAST = ("invoke_agent", "process planner:{0}:steps:default", "process planner:{0}:outcomes")
PLANNER = [sys.executable, "-c", "from worker.start import planner; planner()"]
AGENT = "cat > /dev/null; echo $TRACEPARENT >> notes.txt"
GOAL = {
    "goal": f"Write down what is known {SECRET}",
    "allowed_files": ["notes.txt"],
    "context": {"language": "python", "failure_log": SECRET},
}
STEPS = [
    {"step_id": "first", "title": "Write", "intent": SECRET, "allowed_files": ["notes.txt"]},
    {"step_id": "second", "title": "Again", "intent": "i", "allowed_files": ["notes.txt"], "depends_on": ["first"]},
]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as found:
        yield found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    (place / "notes.txt").write_text("nothing\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=place, check=True, capture_output=True)
    return place


def controller(stack: ExitStack, repository: Path, tmp_path: Path, **variables: str) -> None:
    """Run a controller until the end of the stack."""
    words = ["controller", "--exec", f'sh -c "{AGENT}"', "--workdir", str(repository), "--logs", "off"]
    argv = [*PLANNER, *words, "--sandbox", "off"]
    stack.enter_context(running(argv, os.environ | variables, tmp_path / "controller.log", tmp_path))


def gateway(stack: ExitStack, tmp_path: Path, **variables: str) -> str:
    """Run a gateway until the end of the stack; returns its URL."""
    port, log = free_port(), tmp_path / "gateway.log"
    argv = [*PLANNER, "gateway", "--port", str(port)]
    stack.enter_context(running(argv, os.environ | variables, log, tmp_path))
    wait_until(lambda: b"gateway listens" in log.read_bytes(), what="the gateway listens")
    return f"http://127.0.0.1:{port}"


def plan_of(redis: Redis) -> str:
    """Wait for the one plan, and name it."""
    found: Any = wait_until(lambda: redis.zrange(Partition(0).plans, 0, 0), what="a plan")
    return str(found[0].decode())


@pytest.mark.outages
@pytest.mark.parametrize("pool", [pytest.param("prefork", marks=pytest.mark.long), "solo"])
def test_a_plan_is_one_trace_and_every_spans_parent_is_known(
    pool: str, redis_url: str, redis: Redis, collector: Collector, repository: Path, tmp_path: Path
) -> None:
    variables = {"PLANNER_REDIS_URL": redis_url, **collector.environment}
    key = api_keys.add(redis, ApiKey(key_id="traced", rights=(Right.PRODUCER,)))
    with ExitStack() as stack:
        llm = stack.enter_context(llm_server(Reply(codec.dumps(DRAFT).decode(), tokens=(700, 77))))
        stack.enter_context(running_worker(redis_url, tmp_path / "worker.log", pool, **variables | environment(llm)))
        url = gateway(stack, tmp_path, **variables)
        controller(stack, repository, tmp_path, **variables)
        headers = {"Authorization": f"Bearer {key}"}
        httpx.post(f"{url}/v1/goals", json={**GOAL, "drafter": "http"}, headers=headers, timeout=30).raise_for_status()
        plan_id = plan_of(redis)
        wait_until(lambda: state(redis, plan_id) == "COMPLETED", 60, "the plan's end")
        # Processes that end have a few seconds to send their last spans.
        wait_until(lambda: all(map(collector.named, LAST)), what="the last spans")

    spans = {span.id: span for span in collector.spans if span.name != "GET /healthz"}
    (root,) = (span for span in spans.values() if not span.parent)
    assert (root.service, root.name) == ("planner-gateway", "POST /v1/goals")
    assert {span.trace for span in spans.values()} == {root.trace}
    assert {span.parent for span in spans.values()} - {""} <= spans.keys()
    assert not [span for span in spans.values() if span.failed]
    (planning,) = collector.named("plan planner")
    (asked,) = collector.named("chat small")
    assert asked.parent == planning.id
    assert planning.attributes["planner.plan_id"] == plan_id
    assert planning.attributes["gen_ai.operation.name"] == "plan"
    used = [asked.attributes[f"gen_ai.usage.{name}_tokens"] for name in ("input", "output")]
    assert used == [700, 77]
    assert line_of(spans, collector.named("invoke_agent")[0]) == [
        *("invoke_agent command", "process planner:{0}:steps:default", "plan planner", "process planner:goals"),
        "POST /v1/goals",
    ]
    attempts = collector.named("process planner:{0}:steps:default")
    assert len(attempts) == len(collector.named("send planner:{0}:steps:default")) >= 1
    assert [spans[span.parent].name for span in collector.named("process planner:{0}:outcomes")] == [
        "process planner:{0}:steps:default"
    ] * len(attempts)
    for told in (SECRET, key.rpartition("_")[2]):
        assert told.encode() not in collector.received
    (told,) = told_to_agents(repository, plan_id)
    assert read_traceparent(told) == told
    assert spans[told.split("-")[2]].name.startswith("invoke_agent")


DRAFT = {
    "summary": "Write it down",
    "steps": [{"id": "write", "title": "Write", "intent": "Write it down", "files": ["notes.txt"]}],
}


def line_of(spans: dict[str, TakenSpan], span: TakenSpan) -> list[str]:
    """Name a span and all above it, up to the root."""
    return [span.name, *(line_of(spans, spans[span.parent]) if span.parent else [])]


def told_to_agents(repository: Path, plan_id: str) -> list[str]:
    """Read what agents saw in their environment, from what they changed."""
    said = subprocess.check_output(["git", "show", f"planner/{plan_id}:notes.txt"], cwd=repository, text=True)
    return said.split()[1:]


@pytest.mark.long
@pytest.mark.outages
def test_without_tracing_a_goals_traceparent_goes_all_the_way_and_nothing_is_imported(
    redis_url: str, redis: Redis, repository: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        stack.enter_context(running_worker(redis_url, tmp_path / "worker.log"))
        controller(stack, repository, tmp_path, PLANNER_REDIS_URL=redis_url, TRACEPARENT=CALLER.replace("0af", "fff"))
        redis.xadd(GOALS, {"data": codec.dumps({**GOAL, "steps": STEPS}), "traceparent": CALLER})
        plan_id = plan_of(redis)
        wait_until(lambda: state(redis, plan_id) == "COMPLETED", 60, "the plan's end")
        redis.xadd(
            GOALS, {"data": codec.dumps({**GOAL, "goal_id": "long", "steps": STEPS}), "traceparent": "0" * 10**6}
        )
        wait_until(lambda: redis.zcard(Partition(0).plans) == 2, what="the plan of a goal whose traceparent is no such")
    lines: Any = redis.lrange(Partition(0).plan(plan_id).log, 0, -1)
    assert b"".join(lines).count(CALLER.encode()) == len(STEPS)  # each outcome has it
    plans: Any = redis.zrange(Partition(0).plans, 0, -1)
    (other,) = {plan.decode() for plan in plans} - {plan_id}
    assert b"traceparent" not in (redis.hget(Partition(0).plan(other).plan, "head") or b"")
    assert told_to_agents(repository, plan_id) == [CALLER, CALLER]
    names = ("worker.telemetry.spans", "opentelemetry.exporter")  # Sentry's package imports others for itself
    checked = f"import sys, worker.celery; print([name for name in {names} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", checked], text=True).strip() == "[]"


@pytest.mark.outages
def test_a_plan_without_a_trace_gets_no_spans_of_a_controller_that_traces(
    redis_url: str, redis: Redis, collector: Collector, repository: Path, tmp_path: Path
) -> None:
    with running_worker(redis_url, tmp_path / "worker.log"), ExitStack() as stack:
        controller(stack, repository, tmp_path, PLANNER_REDIS_URL=redis_url, **collector.environment)
        redis.xadd(GOALS, {"data": codec.dumps({**GOAL, "steps": STEPS})})
        plan_id = plan_of(redis)
        wait_until(lambda: state(redis, plan_id) == "COMPLETED", 60, "the plan's end")
    assert not collector.spans  # its end has sent what waited


@pytest.mark.long
@pytest.mark.outages
def test_a_collector_that_hangs_neither_delays_nor_fails_a_decision(
    redis_url: str, redis: Redis, collector: Collector, repository: Path, tmp_path: Path
) -> None:
    collector.hangs.set()
    variables = {"PLANNER_REDIS_URL": redis_url, **collector.environment, "OTEL_BSP_MAX_QUEUE_SIZE": "512"}
    with running_worker(redis_url, tmp_path / "worker.log", **variables) as worker, ExitStack() as stack:
        controller(stack, repository, tmp_path, **variables)
        redis.xadd(GOALS, {"data": codec.dumps({**GOAL, "steps": STEPS})})
        plan_id = plan_of(redis)
        wait_until(lambda: state(redis, plan_id) == "COMPLETED", what="the plan's end")
        stack.close()
        began = time.monotonic()
        worker.process.terminate()
        worker.process.wait(60)
    assert time.monotonic() - began < 10
    assert not collector.spans
