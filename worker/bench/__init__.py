"""`planner bench`: our figures and their anchors in one run, as ratios that hold on any machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median, quantiles

from redis import Redis

from worker.bench import cpu, doors, event_readers, fleet, turns
from worker.bench.gateway import gateway
from worker.host import embedded_server
from worker.store import clients, keys

FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR")
IDLE_S = 0.25  # until a drain has ended: it lingers for the period of the server's clock, 100 ms
Say = Callable[[str], None]


def measure(
    plans: int, steps: int, pool: str, say: Say, url: str | None = None, *, is_brief: bool = False
) -> dict[str, float]:
    """Run the benchmark on `url`, or an embedded server; returns figures by name.

    `say` hears of each part.

    `is_brief` leaves out the anchors and all but the outcomes of many plans in flight.
    """
    with tempfile.TemporaryDirectory(prefix="planner-bench-") as directory:
        server = nullcontext(url) if url else embedded_server.valkey(Path(directory))
        with server as at, clients.connect(at, 120) as client:
            client.flushdb()
            if is_brief:
                with _worker("worker", at, pool) as pid:
                    figures = _outcomes(client, pid, plans, steps, say)
            else:
                figures = _anchors(client, at, plans * steps, pool, say)
                with _worker("worker", at, pool) as pid:
                    figures |= _ours(client, pid, plans, steps, say)
                    say("Heartbeats beside bare SETs")
                    figures |= fleet.heartbeats_per_s(client, 20_000)
                    say("Goals of a tenant beside a flood of another's")
                    figures |= turns.goal_latency_ms(client)
                    if find_spec("uvicorn"):
                        with gateway(client, at) as door:
                            say("Goals, claims and outcomes over HTTP")
                            figures |= doors.rates(client, door)
                            say("Events to readers over HTTP")
                            figures |= event_readers.costs(client, door)
                figures |= _ratios(figures)
    return {name: round(value, 3) for name, value in figures.items()}


def _anchors(client: Redis, url: str, outcomes: int, pool: str, say: Say) -> dict[str, float]:
    os.environ["PLANNER_REDIS_URL"] = url
    from worker.bench import anchors  # its app takes the URL from the environment

    say("Celery: no-op tasks")
    tasks = min(outcomes, 4000)
    anchors.enqueue(tasks)
    with _worker("worker.bench.anchors", url, pool):
        noop = anchors.noop_per_s(client, tasks)
        say("Celery: send_task to reply")
        roundtrip = anchors.roundtrip_ms(client, 200)
    say("The raw Lua loop")
    floor = anchors.floor_per_s(client, outcomes)
    client.flushdb()
    return {"celery_noop_per_s": noop, "celery_roundtrip_p50_ms": roundtrip, "floor_per_s": floor}


def _outcomes(client: Redis, worker: int, plans: int, steps: int, say: Say) -> dict[str, float]:
    """Make plans, and apply all of their outcomes as fast as they come; `worker` is the process that does."""
    say(f"Planning {plans} goals of {steps} steps")
    empty = client.info("memory")["used_memory"]
    _submit(client, [fleet.goal(number, steps) for number in range(plans)])
    plan_bytes = (client.info("memory")["used_memory"] - empty) / plans
    say(f"Applying {plans * steps} outcomes")
    before = cpu.usage(client, worker)
    rate = plans * steps / fleet.work(client, plans * steps)
    spent = cpu.usage(client, worker).us_each(before, plans * steps)
    return {"outcomes_per_s": rate, **spent, "plan_bytes": plan_bytes}


def _ours(client: Redis, worker: int, plans: int, steps: int, say: Say) -> dict[str, float]:
    figures = _outcomes(client, worker, plans, steps, say)
    say("Latency with one plan in flight")
    _submit(client, [fleet.goal(1, 500)])
    pings = list(fleet.pings(client))
    say("Latency from an idle worker")
    _submit(client, [fleet.goal(2, 60)])
    idle = list(islice(fleet.pings(client, pause_s=IDLE_S), 40))
    fleet.finish(client)
    return {
        **figures,
        "latency_p50_ms": median(pings),
        "latency_p99_ms": quantiles(pings, n=100)[98],
        "latency_idle_p50_ms": median(idle),
        **_large(client, plans * steps, say),
    }


def _large(client: Redis, outcomes: int, say: Say) -> dict[str, float]:
    """Compare the cost of an outcome of one plan with 10 000 steps to that of as busy plans with 10 steps."""
    chains = 16
    say("A plan of 10 000 steps")
    _submit(client, [fleet.goal(3, 10_000, chains)])
    large = 10_000 / fleet.work(client, 10_000)
    say("As many steps in flight in plans of 10")
    rates = []
    for batch in range(max(1, outcomes // 1600)):
        _submit(client, [fleet.goal(1000 + 100 * batch + number, 10) for number in range(chains)])
        rates.append(10 * chains / fleet.work(client, 10 * chains))
    return {"large_plan_per_s": large, "small_plans_per_s": median(rates)}


def _submit(client: Redis, goals: list[bytes]) -> None:
    before = client.zcard(fleet.HOME.plans)
    for goal in goals:
        client.xadd(keys.GOALS, {"data": goal})
    fleet.wait_for(lambda: client.zcard(fleet.HOME.plans) == before + len(goals) and not client.xlen(keys.GOALS))


def _ratios(figures: dict[str, float]) -> dict[str, float]:
    return {
        "outcomes_vs_noop": figures["outcomes_per_s"] / figures["celery_noop_per_s"],
        "outcomes_vs_floor": figures["outcomes_per_s"] / figures["floor_per_s"],
        "latency_p50_vs_roundtrip": figures["latency_p50_ms"] / figures["celery_roundtrip_p50_ms"],
        "latency_p99_vs_roundtrip": figures["latency_p99_ms"] / figures["celery_roundtrip_p50_ms"],
        "latency_idle_vs_roundtrip": figures["latency_idle_p50_ms"] / figures["celery_roundtrip_p50_ms"],
        "heartbeat_vs_set": figures["heartbeat_per_s"] / figures["set_per_s"],
        "large_plan_cost": figures["small_plans_per_s"] / figures["large_plan_per_s"],
    }


@contextmanager
def _worker(app: str, url: str, pool: str) -> Iterator[int]:
    """Run one Celery worker process of `app` against `url`; yields its pid."""
    command = [sys.executable, "-m", "celery", "-A", app, "worker", "-P", pool, "-c", "1", *FLAGS]
    environment = {**os.environ, "PLANNER_REDIS_URL": url, "PLANNER_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 (our own command)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)
