"""What Prometheus is told: by the engine's commits, by real workers of which a child is killed, by gateways."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.api_key import Right
from schemas.goal import Goal
from tests.bench import fleet
from tests.conftest import RunningWorker, connect, wait_until
from tests.support.engine import a_goal, container, plan
from tests.support.faults import kill, spawn
from tests.support.gateway import running_gateway
from tests.support.messages import publish_all
from tests.support.planner import Planner
from tests.support.programs import needs
from worker.engine.goal_result import source_of
from worker.process.launch import worker_command
from worker.store import functions, keys
from worker.store.fleet import read_queue_names
from worker.store.keys import Partition
from worker.telemetry.metrics import HERE, MOST_NAMES, OTHER, PREFIX, Board
from worker.telemetry.metrics_server import Counts, exposition
from worker.telemetry.shared_state import SharedState

P0 = Partition(0)
Told = dict[tuple[str, tuple[str, ...]], float]


def read(text: str) -> Told:
    """What is told, by the name and the labels' values."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(each.name, tuple(each.labels.values())): each.value for each in samples}


def scrape(port: int) -> Told:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return read(answer.read().decode())


def sum_of(told: Told, name: str) -> float:
    return sum(value for (each, _), value in told.items() if each == name)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    """The board of this process, as a worker has one."""
    made = Board(tmp_path)
    monkeypatch.setattr(HERE, "board", made)
    return made


def told_of_commits(redis_url: str, board: Board) -> str:
    """Let two steps end, one of them twice; returns what is told of that."""
    planner = Planner(redis_url)
    steps = [
        {"step_id": f"s-{n}", "title": "t", "intent": "i", "allowed_files": [f"{n}.py"], "verify": "pytest"}
        for n in range(2)
    ]
    plan_id = planner.submit(goal="g", allowed_files=["0.py", "1.py"], steps=steps, kind="task")
    done = {"tests_passed": True, "touched_files": ["0.py"]}
    spent = {"tokens_used": 700, "duration_ms": 1500, "cost_usd": 0.5, "input_tokens": 90, "output_tokens": -3}
    planner.report("s-0", plan_id, **done, metrics=spent)
    planner.report("s-0", plan_id, **done, metrics=spent)
    evidence = {"category": "TEST_REGRESSION", "top_failing_tests": ["tests/test_a.py::test_b"]}
    planner.report("s-1", plan_id, success=False, tests_passed=False, failure_evidence=evidence)

    return exposition(Counts(board).collect).decode()


def test_commits_are_counted_by_what_they_did(redis_url: str, board: Board) -> None:
    told = read(told_of_commits(redis_url, board))

    def of(name: str, *labels: str) -> float:
        return told.get((f"planner_{name}", labels), 0)

    assert of("plans_total", "given") == of("goals_decided_total", "task", "PLANNED") == 1
    assert of("outcomes_total", "none", "applied") == of("outcomes_total", "none", "duplicate") == 1
    assert of("outcomes_total", "TEST_REGRESSION", "applied") == 1
    assert of("steps_total", "success") == 1
    assert of("revisions_total", "TEST_REGRESSION:1") == 1
    assert of("cost_usd_total", "task") == 0.5
    assert of("llm_tokens_total", "input") == 90
    assert of("llm_tokens_total", "output") == 0
    assert of("step_run_seconds_sum", "default") == 1.5
    assert of("budget_spent_tokens_total", "task") > 700
    assert of("qa_evaluations_total", "passed") == of("qa_evaluations_total", "failed") == 1
    assert sum_of(told, "planner_steps_dispatched_total") >= 3
    assert of("parallel_batches_total") == 1


def test_two_gateways_tell_the_same_of_what_all_share(redis_url: str, redis: Redis) -> None:
    with container(redis_url) as here:
        plan(here, redis, a_goal(3, queue="gpu"), a_goal(2, kind="task"))
        redis.xadd(P0.dead, {"data": "{}"})
        redis.xreadgroup("controllers", "ctl", {P0.steps("gpu"): ">"}, count=1)
    with running_gateway(redis_url) as one, running_gateway(redis_url) as other:
        viewer = one.key(Right.VIEWER)
        answers = [read(each.with_token(viewer).get("/metrics").raise_for_status().text) for each in (one, other)]
        assert one.client(Right.VIEWER, tenant="acme").get("/metrics").status_code == 403
        assert one.with_token(None).get("/metrics").status_code == 401

    for told in answers:
        assert told["planner_plans", ("task", "EXECUTING")] == 2
        assert told["planner_plans", (OTHER, "EXECUTING")] == 0
        assert told["planner_queue_length", ("gpu",)] == told["planner_attempts_in_flight", ("gpu",)] == 1
        assert told["planner_queue_waiting", ("gpu",)] == 0
        assert told["planner_queue_waiting", ("default",)] == told["planner_queue_length", ("default",)] == 1
        assert told["planner_queue_readers", ("gpu",)] == 1
        assert told["planner_queue_readers", ("default",)] == 0
        assert told["planner_dlq_length", ("outcomes",)] == 1
        assert told["planner_sweeper_lag_seconds", ()] < 60
        assert told["planner_state_up", ()] == 1


def told_of_names_from_outside(redis_url: str, redis: Redis) -> str:
    """Make many queues, and such as look like a metric; returns what is told of them."""
    evil = 'a"b\n# TYPE x counter\nx{y="} 1'
    with container(redis_url) as here:
        plan(here, redis, a_goal(1, tenant=evil.replace("\n", " ")))
        plan(here, redis, *(a_goal(1, queue=f"q{number}") for number in range(MOST_NAMES + 10)))
    redis.xadd(P0.steps(evil), {"data": "{}"})
    redis.hset(P0.stats, f"queue:{evil}", 10**6)

    return exposition(SharedState(redis, 1).collect).decode()


def test_names_from_outside_spoil_nothing_and_are_few(redis_url: str, redis: Redis) -> None:
    told = read(told_of_names_from_outside(redis_url, redis))

    queues = {labels[0] for name, labels in told if name == "planner_queue_length"}
    assert len(queues - {OTHER}) <= MOST_NAMES
    assert all(name == OTHER or name == "default" or name.startswith("q") for name in queues)
    assert sum_of(told, "planner_queue_length") == MOST_NAMES + 10 + 2


@needs("promtool")
def test_promtool_takes_what_is_told(redis_url: str, redis: Redis, board: Board) -> None:
    for text in (told_of_commits(redis_url, board), told_of_names_from_outside(redis_url, redis)):
        said = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
        assert said.returncode == 0, said.stdout + said.stderr


def test_queues_of_goals_that_have_no_plan_are_not_noted(redis_url: str, redis: Redis) -> None:
    with container(redis_url) as here:
        plan(here, redis, a_goal(1, queue="used"), {**a_goal(1, queue="unused"), "allowed_files": ["nothing.py"]})

    assert redis.hget(keys.GOALS_STATS, "REJECTED") == b"1"
    assert read_queue_names(redis, 1) == ["used"]


def test_no_more_queues_are_looked_for_than_the_thousand_that_are_named_most(redis: Redis) -> None:
    redis.hset(keys.GOALS_STATS, mapping={f"queue:q{number}": number for number in range(1200)})

    found = read_queue_names(redis, 1)

    assert (len(found), found[0], found[-1]) == (1000, "q1199", "q200")


def test_queues_that_producers_invent_take_no_more_room_than_a_thousand_counters(redis: Redis) -> None:
    used = [f"queue:used{number}" for number in range(20)]
    count(redis, *(part for name in used for part in (name, 500)), "PLANNED", 3)

    for start in range(0, 5000, 50):  # as many as one goal may name
        count(redis, *(part for number in range(start, start + 50) for part in (f"queue:invented{number}", 1)))
    count(redis, "queue:new", 1)

    found: Any = redis.hgetall(keys.GOALS_STATS)
    counts = {name.decode(): int(value) for name, value in found.items()}
    queues = {name: value for name, value in counts.items() if name.startswith("queue:")}
    assert len(counts) <= 1001
    assert counts["PLANNED"] == 3
    assert {name: counts.get(name) for name in used} == dict.fromkeys(used, 500)
    assert counts["queue:new"] == 1
    assert sum(queues.values()) + counts["other_queues"] == 20 * 500 + 5000 + 1
    assert read_queue_names(redis, 1)[:20] == sorted(name.removeprefix("queue:") for name in used)


def count(redis: Redis, *counted: str | int) -> None:
    functions.call_or_load(redis, "FCALL", functions.COUNT, 1, keys.GOALS_STATS, *counted)


def test_plans_are_counted_as_given_where_the_goal_brings_steps_or_tasks() -> None:
    with_tasks = {"kind": "campaign", "campaign": {"objective": "o", "tasks": []}}

    assert source_of(Goal.model_validate(a_goal(1)), "none") == "given"
    assert source_of(Goal.model_validate({"goal": "g", **with_tasks}), "queue") == "given"
    assert source_of(Goal.model_validate({"goal": "g", **with_tasks, "drafter": "http"}), "http") == "given"
    assert source_of(Goal.model_validate({"goal": "g", "kind": "campaign"}), "http") == "llm"
    assert source_of(Goal.model_validate({"goal": "g"}), "none") == "pattern"


def test_the_state_is_read_seldom_and_said_to_be_unknown_without_redis(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.telemetry.shared_state.FRESH_S", 60.0)
    shared = SharedState(redis, 1)
    first = exposition(shared.collect)
    commands: Any = redis.info("commandstats")
    calls = commands["cmdstat_xlen"]["calls"]

    for _ in range(20):
        assert exposition(shared.collect) == first
    after: Any = redis.info("commandstats")
    assert after["cmdstat_xlen"]["calls"] == calls

    nobody = SharedState(Redis(port=1, retry=Retry(NoBackoff(), 0)), 1)
    assert read(exposition(nobody.collect).decode()) == {("planner_state_up", ()): 0}


# --- real processes ---


@contextmanager
def counting_worker(url: str, tmp_path: Path, *arguments: str) -> Iterator[tuple[RunningWorker, int]]:
    """Run a prefork worker with two children that tells its metrics; yields its port, too."""
    log = tmp_path / "worker.log"
    process = spawn(
        [*worker_command("prefork", 2), *arguments], url, log, PLANNER_METRICS_PORT="0", TMPDIR=str(tmp_path)
    )
    with connect(url) as client:
        worker = RunningWorker(url, client, process, log)
        try:
            wait_until(lambda: process.poll() is not None or worker.logged("metrics served"), 60, "metrics are served")
            wait_until(lambda: len(worker.logged("ingress consumes")) > 3, 60, "worker consumes")
            yield worker, worker.logged("metrics served")[0]["port"]
        finally:
            kill(process)


def work(redis: Redis, first: int, plans: int) -> None:
    publish_all(redis, [fleet.goal(first + number, 3) for number in range(plans)])
    left = 3 * plans
    while left:
        specs = next(filter(None, (fleet.read(redis, 64, block_ms=15_000) for _ in range(4))), [])
        assert specs, f"{left} steps did not come"
        fleet.answer(redis, specs)
        left -= len(specs)
    wait_until(lambda: redis.zcard(P0.list_of("state:COMPLETED")) >= first + plans, what="plans end")


def _has_counted(port: int, outcomes: int) -> bool:
    return sum_of(scrape(port), "planner_outcomes_total") == outcomes


def _is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.outages
def test_counters_of_a_worker_add_up_though_its_children_are_killed(
    redis_url: str, redis: Redis, tmp_path: Path
) -> None:
    with counting_worker(redis_url, tmp_path) as (worker, port):
        (folder,) = tmp_path.glob(f"{PREFIX}*")
        for round_ in range(3):
            work(redis, 4 * round_, 4)
            wait_until(partial(_has_counted, port, 12 * (round_ + 1)), what="what was applied is counted")
            counted = {int(path.stem.rpartition("_")[2]) for path in folder.glob("counter_*.db")} - {worker.process.pid}
            there = [pid for pid in counted if Path(f"/proc/{pid}").exists()]
            os.kill(there[0], signal.SIGKILL)
            wait_until(partial(_is_gone, there[0]), what="the child is gone")
        told = scrape(port)

        assert sum_of(told, "planner_outcomes_total") == 36
        assert told["planner_plans_ended_total", ("task", "COMPLETED")] == 12
        assert told["planner_step_run_seconds_count", ("default",)] == 36
        assert told["planner_plans_total", ("given",)] == 12
        other = spawn(worker_command("solo"), redis_url, tmp_path / "other.log", PLANNER_METRICS_PORT=str(port))
        try:
            assert other.wait(60) == 1
        finally:
            kill(other)
        assert f"Cannot serve metrics at 127.0.0.1, port {port}" in (tmp_path / "other.log").read_text()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(60) == 0
        assert not folder.exists()


@pytest.mark.outages
def test_the_exporter_serves_until_it_is_stopped(redis_url: str, redis: Redis, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from worker.start import planner; planner()", "exporter", "--port", "0"]
    process = spawn(command, redis_url, tmp_path / "exporter.log")
    exporter = RunningWorker(redis_url, redis, process, tmp_path / "exporter.log")
    try:
        (served,) = wait_until(lambda: exporter.logged("metrics served"), what="the exporter serves")
        assert scrape(served["port"])["planner_state_up", ()] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        kill(process)


@pytest.mark.outages
def test_without_the_setting_a_worker_does_not_even_read_the_library() -> None:
    look = "import sys, worker.celery, worker.process.lifecycle; sys.exit('prometheus_client' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", look], check=False, timeout=60).returncode == 0
