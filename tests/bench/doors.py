"""Goals, claims and outcomes over HTTP, as the benchmark measures them over Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles
from typing import Any

import httpx
from redis import Redis

from schemas import codec
from tests.bench import cpu, fleet
from tests.bench.gateway import RunningGateway
from worker.store import keys

CALLERS = 8
WARM_UP = 40  # goals
GOALS, STEPS = 400, 10
AT_ONCE = 100  # steps of a claim, and outcomes of a request
PINGS = 300
JSON = {"Content-Type": "application/json"}


def rates(client: Redis, at: RunningGateway) -> dict[str, float]:
    """Measure goals and outcomes a second, the gateway's CPU for each, and an outcome's way to the next step's claim.

    The rates measure the client as well, which shares the cores; the CPU is the gateway's alone.
    """
    headers = {"Authorization": f"Bearer {at.token}"}
    with (
        httpx.Client(base_url=f"http://127.0.0.1:{at.port}", headers=headers, timeout=60) as http,
        ThreadPoolExecutor(CALLERS) as callers,
    ):
        planned = client.zcard(fleet.HOME.plans)
        for number in range(WARM_UP):  # what is imported when it is first needed belongs to none
            _send(http, 50_000 + number, STEPS).raise_for_status()
        before, begin = cpu.usage(client, at.pid), time.perf_counter()
        for answer in callers.map(lambda number: _send(http, 60_000 + number, STEPS), range(GOALS)):
            answer.raise_for_status()
        goals = GOALS / (time.perf_counter() - begin)
        of_goal = cpu.usage(client, at.pid).us_each(before, GOALS)
        made = planned + WARM_UP + GOALS
        fleet.wait_for(lambda: client.zcard(fleet.HOME.plans) == made and not client.xlen(keys.GOALS))
        before, begin = cpu.usage(client, at.pid), time.perf_counter()
        done = sum(callers.map(lambda number: _work(http, f"bench-{number}"), range(CALLERS)))
        fleet.wait_for(lambda: not client.xlen(fleet.HOME.outcomes))
        outcomes = done / (time.perf_counter() - begin - 1)  # the last claim waits for a second
        of_outcome = cpu.usage(client, at.pid).us_each(before, done)
        _send(http, 70_000, PINGS).raise_for_status()
        pings = list(_pings(http))
    return {
        "gateway_cpu_us": of_goal["worker_cpu_us"],
        "gateway_outcome_cpu_us": of_outcome["worker_cpu_us"],
        "http_goals_per_s": goals,
        "http_outcomes_per_s": outcomes,
        "http_latency_p50_ms": median(pings),
        "http_latency_p99_ms": quantiles(pings, n=100)[98],
    }


def _send(http: httpx.Client, number: int, steps: int) -> httpx.Response:
    return http.post("/v1/goals", content=fleet.goal(number, steps), headers=JSON)


def _claim(http: httpx.Client, name: str, most: int, wait_s: float) -> list[dict[str, Any]]:
    body = codec.dumps({"controller": name, "max": most, "wait_s": wait_s})
    answer = http.post("/v1/steps:claim", content=body, headers=JSON).raise_for_status()
    steps: list[dict[str, Any]] = codec.loads(answer.content)["steps"]
    return steps


def _report(http: httpx.Client, steps: list[dict[str, Any]]) -> None:
    body = codec.dumps([fleet.outcome(spec) for spec in steps])
    http.post("/v1/outcomes", content=body, headers=JSON).raise_for_status()


def _work(http: httpx.Client, name: str) -> int:
    """Do what there is, until nothing has come for a second; returns how many steps."""
    count = 0
    while steps := _claim(http, name, AT_ONCE, 1):
        _report(http, steps)
        count += len(steps)
    return count


def _pings(http: httpx.Client) -> Iterator[float]:
    """Do a plan that has one step in flight; yields the ms from each outcome to the claim of the next step."""
    steps = _claim(http, "bench", 1, 10)
    while steps:
        begin = time.perf_counter()
        _report(http, steps)
        steps = _claim(http, "bench", 1, 1)
        if steps:
            yield 1000 * (time.perf_counter() - begin)
