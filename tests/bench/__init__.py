"""Our figures and their anchors in one run, as ratios that hold on any machine."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tests.bench import (
    doors,
    effects,
    event_readers,
    fleet,
    heartbeats,
    idle,
    latency,
    outcomes,
    partitions,
    plan_sizes,
    servers,
    turns,
)
from tests.bench.gateway import gateway
from tests.bench.report import Report
from tests.bench.site import Say, Site, Sizes
from worker.store import clients


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is measured: on which server, with which pool of workers, how much, and how often.

    A brief one leaves out all but the goals and outcomes of many plans in flight. An idle one measures a worker to
    which nothing comes, and one plan in flight. One of the doors measures a gateway alone.
    """

    server: str = servers.EMBEDDED
    preload: Path | None = None
    pool: str = "solo"
    sizes: Sizes = field(default_factory=Sizes)
    runs: int = 1
    is_brief: bool = False
    is_idle: bool = False
    is_of_doors: bool = False
    appendfsync: str | None = None


def measure(wanted: Measurement, say: Say) -> Report:
    """Run the benchmark; `say` hears of each part. Raises servers.UnusableServer."""
    with (
        tempfile.TemporaryDirectory(prefix="planner-bench-") as directory,
        servers.running(wanted.server, Path(directory), wanted.preload, wanted.appendfsync) as url,
        clients.connect(url, 120) as client,
    ):
        runs = []
        site = Site(client, url, wanted.pool, say, wanted.sizes)
        for number in range(wanted.runs):
            if wanted.runs > 1:
                say(f"Run {number + 1} of {wanted.runs}")
            runs.append(_run(wanted, site))
        return Report(servers.describe(client, wanted.preload), runs)


def _run(wanted: Measurement, site: Site) -> dict[str, float]:
    if wanted.is_brief:
        return _brief(site)
    if wanted.is_idle:
        return _idle(site)
    return _of_doors(site) if wanted.is_of_doors else _full(site)


def _of_doors(site: Site) -> dict[str, float]:
    site.client.flushdb()
    with site.workers():
        site.submit_new(site.sizes.warm_up, site.sizes.steps)
        fleet.work(site.client, site.sizes.warm_up * site.sizes.steps)
        with gateway(site.client, site.url) as door:
            site.say("Goals, claims and outcomes over HTTP")
            return doors.rates(site.client, door)


def _brief(site: Site) -> dict[str, float]:
    site.client.flushdb()
    with site.workers() as workers:
        return outcomes.throughput(site, workers)


def _idle(site: Site) -> dict[str, float]:
    figures = idle.idle_figures(site)
    with site.workers():
        return figures | latency.latencies_ms(site)


def _full(site: Site) -> dict[str, float]:
    figures = _anchors(site)
    site.client.flushdb()
    with site.workers() as workers:
        figures |= outcomes.throughput(site, workers)
        figures |= outcomes.in_repositories(site, workers)
        figures |= latency.latencies_ms(site)
        figures |= plan_sizes.by_steps(site, workers)
        site.say("Heartbeats beside bare SETs")
        figures |= heartbeats.heartbeats_per_s(site.client, site.sizes.heartbeats)
        figures |= _over_http(site)
        site.submit_new(1, 10)
        commit = effects.capture(site.client)
    site.say("The effects of our outcomes in a bare loop")
    figures |= effects.floor(site, commit)
    figures |= partitions.by_workers(site)
    figures |= plan_sizes.by_live_plans(site)
    with site.workers():
        site.say("Goals of a tenant beside a flood of another's")
        figures |= turns.goal_latency_ms(site.client, site.sizes.flood)
    site.client.flushdb()
    return figures | _ratios(figures)


def _anchors(site: Site) -> dict[str, float]:
    os.environ["PLANNER_REDIS_URL"] = site.url
    from tests.bench import anchors  # its app takes the URL from the environment

    return anchors.rates(site)


def _over_http(site: Site) -> dict[str, float]:
    """Measure the gateway, where its extra is installed."""
    if not find_spec("uvicorn"):
        return {}
    with gateway(site.client, site.url) as door:
        site.say("Goals, claims and outcomes over HTTP")
        figures = doors.rates(site.client, door)
        site.say("Events to readers over HTTP")
        return figures | event_readers.costs(site.client, door)


def _ratios(figures: dict[str, float]) -> dict[str, float]:
    back_to_back, idle = figures["celery_roundtrip_p50_ms"], figures["celery_roundtrip_idle_p50_ms"]
    return {
        "outcomes_vs_noop": figures["outcomes_per_s"] / figures["celery_noop_per_s"],
        "outcomes_vs_floor": figures["outcomes_per_s"] / figures["floor_per_s"],
        "outcomes_vs_effects_floor": figures["outcomes_per_s"] / figures["effects_floor_per_s"],
        "latency_p50_vs_roundtrip": figures["latency_p50_ms"] / back_to_back,
        "latency_p99_vs_roundtrip": figures["latency_p99_ms"] / back_to_back,
        "latency_idle_vs_roundtrip": figures["latency_idle_p50_ms"] / idle,
    }
