"""How long one plan in flight waits for its next step."""

from __future__ import annotations

from itertools import islice
from statistics import median, quantiles

from tests.bench.fleet import Fleet
from tests.bench.site import Site

IDLE_S = 0.25  # until a drain has ended: it lingers for the period of the server's clock, 100 ms


def latencies_ms(site: Site) -> dict[str, float]:
    """Measure from an outcome published to the next step read: one after the other, and each after a pause."""
    with Fleet(site.client) as fleet:
        site.say("Latency with one plan in flight")
        site.submit_new(1, site.sizes.pings)
        pings = list(fleet.pings())
        site.say("Latency from an idle worker")
        site.submit_new(1, site.sizes.idle_pings + 1)
        idle = list(islice(fleet.pings(IDLE_S), site.sizes.idle_pings))
        for _ in fleet.pings():
            pass
    return {
        "latency_p50_ms": median(pings),
        "latency_p99_ms": quantiles(pings, n=100)[98],
        "latency_idle_p50_ms": median(idle),
    }
