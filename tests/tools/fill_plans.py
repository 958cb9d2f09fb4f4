"""`python -m tests.tools.fill_plans COUNT URL`: fills a server with copies of its newest plan, thousands a second.

A server without plans gets one of ten steps first, of which one is in a controller's hands. The copies have timers a
year away. What looks at plans can be tried beside them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.bench.plan_sizes import copy
from tests.support.engine import a_goal, container, plan
from tests.support.messages import specs
from worker.store import clients
from worker.store.keys import Partition


def fill(url: str, count: int) -> float:
    """Make `count` plans; returns the seconds that took."""
    with clients.connect(url, 120) as client:
        home = Partition(0)
        if not client.zcard(home.plans):
            with container(url) as here:
                plan(here, client, a_goal(10))
                specs(client)
        model: Any = client.zrange(home.plans, -1, -1)[0]
        began = time.monotonic()
        copy(client, model, count)
        return time.monotonic() - began


def main(arguments: Sequence[str]) -> None:
    """Fill the server that is named, and print how long that took."""
    count, url = arguments
    sys.stdout.write(f"{count} plans in {fill(url, int(count)):.0f} s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
