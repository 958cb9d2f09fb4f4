"""What an outcome costs beside how large its plan is, and how many plans live on the server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from statistics import median
from typing import Any

from redis import Redis

from tests.bench.fleet import HOME, Fleet
from tests.bench.outcomes import warm_up, work
from tests.bench.site import Site
from tests.bench.wire import Wire, pack

IN_FLIGHT = 16  # steps, whatever the plans are
YEAR_MS = 365 * 86_400_000
COPIES_AT_ONCE = 500


def by_steps(site: Site, workers: tuple[int, ...]) -> dict[str, float]:
    """Measure the CPU of an outcome in plans of several sizes, all as busy."""
    figures: dict[str, float] = {}
    smallest, largest = site.sizes.steps_of_plans[0], site.sizes.steps_of_plans[-1]
    for steps in site.sizes.steps_of_plans:
        site.say(f"Plans of {steps} steps, {IN_FLIGHT} in flight")
        rate, spent = _busy(site, workers, steps)
        figures[f"cpu_us_{steps}_steps"] = spent
        figures[f"outcomes_per_s_{steps}_steps"] = rate
    for steps in site.sizes.steps_of_plans[1:-1]:
        figures[f"large_plan_cost_{steps}"] = figures[f"cpu_us_{steps}_steps"] / figures[f"cpu_us_{smallest}_steps"]
    figures["large_plan_cost"] = figures[f"cpu_us_{largest}_steps"] / figures[f"cpu_us_{smallest}_steps"]
    return figures


def _busy(site: Site, workers: tuple[int, ...], steps: int) -> tuple[float, float]:
    """Work off plans of so many steps, a few at a time; returns outcomes a second, and the CPU of one."""
    chains = max(1, min(IN_FLIGHT, steps // 25))
    plans = IN_FLIGHT // chains
    rates: list[float] = []
    spent = done = 0.0
    while done < site.sizes.least_outcomes:
        site.submit_new(plans, steps, chains)
        rate, cpu = work(site, workers, plans * steps)
        rates.append(rate)
        spent += cpu["cpu_us"] * plans * steps
        done += plans * steps
    return median(rates), spent / done


def by_live_plans(site: Site) -> dict[str, float]:
    """Measure the CPU of an outcome while other plans live on the server, more and more of them."""
    site.client.flushdb()
    sizes, figures = site.sizes, dict[str, float]()
    outcomes = sizes.plans * sizes.steps
    with site.workers() as workers:
        warm_up(site)
        site.submit_new(1, sizes.steps)
        with Fleet(site.client) as fleet:
            fleet.read(1, 5000)  # its step is in flight for good
        model: Any = site.client.zrange(HOME.plans, -1, -1)[0]
        lived = 0
        for others in (0, *sizes.live_plans):
            if others:
                site.say(f"Making {others} live plans")
                copy(site.client, model, others - lived)
                lived = others
            site.say(f"Applying {outcomes} outcomes beside {others} live plans")
            site.submit_new(sizes.plans, sizes.steps)
            rate, spent = work(site, workers, outcomes)
            figures[f"cpu_us_beside_{others}_plans"] = spent["cpu_us"]
            figures[f"outcomes_per_s_beside_{others}_plans"] = rate
    site.client.flushdb()
    figures["many_plans_cost"] = (
        figures[f"cpu_us_beside_{sizes.live_plans[-1]}_plans"] / figures["cpu_us_beside_0_plans"]
    )
    return figures


def copy(client: Redis, model: bytes, count: int) -> None:
    """Make `count` plans that are as `model` in all that is stored, but for their ids and timers a year away."""
    keys: list[bytes] = list(client.scan_iter(match=b"*%b*" % model, count=10_000))
    places = list(_places(client, model))
    with Wire(client) as wire:
        for first in range(0, count, COPIES_AT_ONCE):
            some = range(first, min(first + COPIES_AT_ONCE, count))
            ids = [b"plan_%02x-%b" % (number % 256, secrets.token_hex(16).encode()) for number in some]
            commands = [pack("COPY", key, key.replace(model, plan_id)) for plan_id in ids for key in keys]
            for command, key, value in places:
                commands.append(
                    pack(command, key, *[word for plan_id in ids for word in _pair(command, plan_id, value)])
                )
            for reply in wire.ask(b"".join(commands), len(commands)):
                if isinstance(reply, Exception):
                    raise reply


def _pair(command: str, plan_id: bytes, value: Any) -> tuple[Any, ...]:
    return (plan_id, value) if command == "HSET" else (value, plan_id)


def _places(client: Redis, plan_id: bytes) -> Iterator[tuple[str, bytes, Any]]:
    """Yield where a plan stands in what is not its own: the command that puts another there, the key, and the value."""
    for key in client.scan_iter(match=HOME.tag + "*", count=10_000, _type="zset"):
        score = client.zscore(key, plan_id)
        if score is not None:
            yield "ZADD", key, int(score) + (YEAR_MS if key == HOME.timers.encode() else 0)
    for key in client.scan_iter(match=HOME.tag + "*", count=10_000, _type="hash"):
        if value := client.hget(key, plan_id):
            yield "HSET", key, value
