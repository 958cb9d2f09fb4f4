"""One and two workers on one and two partitions."""

from __future__ import annotations

from tests.bench.outcomes import warm_up, work
from tests.bench.site import Site

COMBINATIONS = ((1, 1), (2, 1), (2, 2), (1, 2))  # workers, partitions


def by_workers(site: Site) -> dict[str, float]:
    """Measure outcomes a second, and the CPU of one, for each combination; each begins with an empty server."""
    sizes, figures = site.sizes, dict[str, float]()
    for count, partitions in COMBINATIONS:
        name = f"{count}_workers_{partitions}_partitions"
        site.say(f"Workers: {count}, partitions: {partitions}")
        site.client.flushdb()  # with the number of partitions that it had
        with site.workers(count, partitions) as workers:
            warm_up(site, partitions)
            site.submit_new(sizes.plans, sizes.steps, partitions=partitions)
            rate, spent = work(site, workers, sizes.plans * sizes.steps, partitions)
        figures[f"outcomes_per_s_{name}"], figures[f"cpu_us_{name}"] = rate, spent["cpu_us"]
    site.client.flushdb()
    one, two = figures["cpu_us_1_workers_1_partitions"], figures["cpu_us_2_workers_2_partitions"]
    return {**figures, "two_workers_two_partitions_cost": two / one}
