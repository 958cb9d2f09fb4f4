"""The whole system on one screen: which message goes to which handler, over which queue. Read this first.

Celery tasks, watches, jobs and the watchdog are made from this table by the worker; there is no `@task` here. What a
task does is `begin -> handler -> commit`: the handlers are pure, and the store writes what they return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemas.contract import streams
from tasks.handlers import bulk_commands, commands, goals, outcomes, upkeep


@dataclass(frozen=True, slots=True)
class Route:
    """One kind of message. A Celery task is only the wake-up that something waits; it carries no message."""

    task: str  # name of the Celery task, and of its queue
    streams: tuple[str, ...]  # where its messages wait, as addresses; entries that nobody has read wake the task
    handlers: tuple[Callable[..., Any], ...]
    per_partition: bool = False
    is_slow: bool = False  # may take minutes, and shows meanwhile that it goes on
    timers: str = ""  # address of what is due, by partition; the clocks of plans unless said
    sweeper: Route | None = None  # takes over what dead workers had read, and what timers ask for; None: itself


# goal -> accepted plan | rejected | nothing to do; beside it those that wait for a drafter, a few at a time
GOALS = Route("planner.decompose", (streams.GOALS,), (goals.plan, goals.accept, goals.refuse), is_slow=True)
# clocks that have run out -> expired attempts, plans out of time, work that was left over
UPKEEP = Route("planner.upkeep", (), (upkeep.apply,), per_partition=True)
# outcomes -> next steps, retries, the end of the plan; many at a time, grouped by plan; commands about one plan first
OUTCOMES = Route(
    "planner.outcomes",
    (streams.PLAN_COMMANDS, streams.OUTCOMES),
    (outcomes.apply, commands.apply),
    per_partition=True,
    sweeper=UPKEEP,
)
# commands about more than one plan -> what stands for each of them, now and later
COMMANDS = Route("planner.commands", (streams.COMMANDS,), (bulk_commands.record, bulk_commands.lift), is_slow=True)
# ends of plans and waits for people -> signed requests to endpoints, until each has it; worker/callbacks
CALLBACKS = Route("planner.callbacks", (streams.OUTBOX,), (), per_partition=True, timers=streams.CALLBACKS)
# deliveries of webhooks that are no goals yet -> goals with what their forge tells, commands that cancel older plans
WEBHOOKS = Route("planner.webhooks", (streams.WEBHOOK_JOBS,), (), is_slow=True)
ROUTES = (GOALS, OUTCOMES, COMMANDS, UPKEEP, CALLBACKS, WEBHOOKS)
