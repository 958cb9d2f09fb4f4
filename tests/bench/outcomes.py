"""Goals and outcomes of many plans in flight: how many a second, and what each costs."""

from __future__ import annotations

import time

from tests.bench.fleet import Fleet
from tests.bench.site import Site


def in_repositories(site: Site, workers: tuple[int, ...]) -> dict[str, float]:
    """Do the same with goals that name their repositories: the files of their plans are claimed, and given back."""
    found = throughput(site, workers, names_repository=True)
    told = ("cpu_us", "plan_bytes", "creation_vs_outcomes")
    return {f"repository_{name}": found[name] for name in told}


def throughput(site: Site, workers: tuple[int, ...], *, names_repository: bool = False) -> dict[str, float]:
    """Make plans, then apply all of their outcomes as fast as they come."""
    sizes = site.sizes
    outcomes = sizes.plans * sizes.steps
    warm_up(site)
    where = " of repositories" if names_repository else ""
    site.say(f"Planning {sizes.plans} goals{where} of {sizes.steps} steps")
    empty, before, begin = site.client.info("memory")["used_memory"], site.usage(workers), time.perf_counter()
    site.submit_new(sizes.plans, sizes.steps, names_repository=names_repository)
    goals_per_s = sizes.plans / (time.perf_counter() - begin)
    created = site.usage(workers).us_each(before, sizes.plans)
    plan_bytes = (site.client.info("memory")["used_memory"] - empty) / sizes.plans
    site.say(f"Applying {outcomes} outcomes")
    rate, spent = work(site, workers, outcomes)
    return {
        "outcomes_per_s": rate,
        **spent,
        "plan_bytes": plan_bytes,
        "goals_per_s": goals_per_s,
        "goal_worker_cpu_us": created["worker_cpu_us"],
        "goal_server_cpu_us": created["server_cpu_us"],
        "creation_vs_outcomes": created["worker_cpu_us"] / (sizes.steps * spent["worker_cpu_us"]),
    }


def work(site: Site, workers: tuple[int, ...], outcomes: int, partitions: int = 1) -> tuple[float, dict[str, float]]:
    """Apply so many outcomes of plans that are there; returns how many a second, and the CPU of each."""
    with Fleet(site.client, partitions) as fleet:
        before = site.usage(workers)
        rate = outcomes / fleet.work(outcomes)
        return rate, site.usage(workers).us_each(before, outcomes)


def warm_up(site: Site, partitions: int = 1) -> None:
    """Have a few plans done, so that everything was needed once."""
    site.submit_new(site.sizes.warm_up, site.sizes.steps, partitions=partitions)
    with Fleet(site.client, partitions) as fleet:
        fleet.work(site.sizes.warm_up * site.sizes.steps)
