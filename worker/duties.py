"""What a worker does when it is nudged: as a Celery task, or in the watch's own thread while the broker is away."""

from __future__ import annotations

import time
from collections.abc import Callable

from worker.bootstrap import Services, services
from worker.handback import tidy

TIDY_S = 600.0  # between looks for consumers of workers that are long gone


def decompose() -> bool:
    """Plan goals until none waits, those of dead workers first; returns whether some may be left."""
    here = services()
    here.decomposer.recover(_idle_ms(here))
    return here.decomposer.drain()


def outcomes(partition: int) -> bool:
    """Apply the outcomes of a partition until none comes; returns whether some may be left."""
    return services().home(partition).engine.drain()


def upkeep(partition: int) -> bool:
    """Hand out a partition's due work, and take over what dead workers had read."""
    here = services()
    here.home(partition).engine.sweep(here.name)
    here.home(partition).engine.recover(_idle_ms(here))
    if time.monotonic() - here.tidied >= TIDY_S:
        here.tidied = time.monotonic()
        tidy(here.client, here.settings.partitions)
    return False


def orders() -> bool:
    """Obey the orders about more than one plan."""
    return services().wide.drain()


DUTIES: dict[str, Callable[..., bool]] = {
    "planner.decompose": decompose,
    "planner.outcomes": outcomes,
    "planner.upkeep": upkeep,
    "planner.orders": orders,
}


def _idle_ms(here: Services) -> int:
    return int(here.settings.claim_idle_s * 1000)
