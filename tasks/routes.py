"""The whole system on one screen: which message goes to which handler, over which queue. Read this first.

There is no `@task` here: `worker/celery.py` binds each route to a Celery task of its name, whose work is
`load -> handler -> commit`. The handlers are pure; what they return is written by the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks.handlers import bulk_commands, commands, creation, goals, outcomes, upkeep


@dataclass(frozen=True, slots=True)
class Route:
    """One kind of message. A Celery task is only the nudge that something waits; it carries no message."""

    task: str  # name of the Celery task and of its queue
    source: str  # where the messages wait
    handlers: tuple[Callable[..., Any], ...]
    per_partition: bool


ROUTES = (
    # goal -> accepted plan | rejected | nothing to do; one goal at a time, since it may wait for an LLM
    Route("planner.decompose", "planner:goals", (goals.plan, creation.accepted, creation.refused), per_partition=False),
    # outcomes -> next steps, retries, the end of the plan; many at a time, grouped by plan
    Route("planner.outcomes", "planner:{p}:outcomes", (outcomes.apply, commands.apply), per_partition=True),
    # orders about more than one plan -> what stands for each of them, now and later
    Route("planner.orders", "planner:commands", (bulk_commands.kept, bulk_commands.lifted), per_partition=False),
    # clocks that have run out -> expired attempts, plans out of time, work that was left over
    Route("planner.upkeep", "planner:{p}:timers", (upkeep.apply,), per_partition=True),
)
