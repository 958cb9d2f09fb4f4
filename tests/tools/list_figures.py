"""`uv run python -m tests.tools.list_figures`: the server time of a list of plans, by its order and its filter.

A gateway of its own is asked over HTTP for the page and for `/v1/plans`, beside 5,000 live plans with texts of their
own. The time is the CPU of the gateway and the server: another program on the machine changes it little.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from redis import Redis

from tests.bench.gateway import RunningGateway, gateway
from tests.bench.servers import EMBEDDED, running
from tests.tools.fill_plans import fill
from tests.tools.page_figures import ask, table
from worker.gateway.page.plan_list import SORTS
from worker.store import clients, functions
from worker.store.keys import Partition

PLANS = 5000
SEED = 7
FILTERS = {
    "one state": "state=EXECUTING",
    "one tenant": "tenant=default",
    "waiting for a person": "waiting=true",
    "two words that one plan has": "text=number+4711",
}


def name_goals(client: Redis) -> None:
    """Give each plan a goal of its own, in random order."""
    home = Partition(0)
    plans: Any = client.zrange(home.plans, 0, -1)
    numbers = random.Random(SEED).sample(range(len(plans)), len(plans))
    pipeline = client.pipeline(transaction=False)
    for plan_id, number in zip(plans, numbers, strict=True):
        pipeline.hset(home.plan(plan_id.decode()).plan, "text", f"Fix the rounding of invoices, number {number}")
    pipeline.execute()


def main() -> None:
    """Print the figures of each order and each filter."""
    orders = [(f"by {name}", f"sort={name}") for name in SORTS if name != "made"]
    asked = [("newest first", ""), *orders, *FILTERS.items()]
    with (
        tempfile.TemporaryDirectory() as name,
        running(EMBEDDED, Path(name)) as url,
        clients.connect(url, 60) as client,
    ):
        functions.load(client)
        fill(url, PLANS)
        name_goals(client)
        with gateway(client, url) as at:
            rows = [(what, *(_cell(client, at, path, query) for path in ("/", "/v1/plans"))) for what, query in asked]
    table(("5,000 plans", "the page's list, ms", "`/v1/plans`, ms"), rows)


def _cell(client: Redis, at: RunningGateway, path: str, query: str) -> str:
    """Return the CPU for a list in ms, with the server's part; the API has no orders."""
    if path != "/" and query.startswith("sort"):
        return ""
    spent = ask(client, at, f"{path}?{query}")
    return f"{spent['cpu_ms'] + spent['server_ms']:.0f} ({spent['server_ms']:.0f})"


if __name__ == "__main__":
    main()
