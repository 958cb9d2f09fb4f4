"""The whole system on one screen: for each message its queue and its handler. Read this first.

The worker makes Celery tasks, watches, jobs and the watchdog from this table; there is no `@task` here. A task runs
`begin -> handler -> commit`: handlers are pure, and the store writes their changesets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemas.contract import streams
from tasks.handlers import bulk_commands, commands, goals, outcomes, upkeep


@dataclass(frozen=True, slots=True)
class Route:
    """One kind of message. Its Celery task only wakes a worker up; it carries no message."""

    task: str  # name of the Celery task and its queue
    streams: tuple[str, ...]  # addresses where its messages wait; unread entries wake the task
    handlers: tuple[Callable[..., Any], ...]
    per_partition: bool = False
    is_slow: bool = False  # may take minutes, and shows its progress meanwhile
    timers: str = ""  # address of due timers, by partition; by default the clocks of plans
    sweeper: Route | None = None  # takes over messages that dead workers had read, and due timers; None: itself


# goal -> accepted plan | rejected | nothing to do; plans that wait for a drafter run separately, a few at a time
GOALS = Route("planner.decompose", (streams.GOALS,), (goals.plan, goals.accept, goals.refuse), is_slow=True)
# expired clocks -> expired attempts, plans out of time, left-over work
UPKEEP = Route("planner.upkeep", (), (upkeep.apply,), per_partition=True)
# outcomes -> next steps, retries, the end of the plan; many at a time, grouped by plan; commands about one plan first
OUTCOMES = Route(
    "planner.outcomes",
    (streams.PLAN_COMMANDS, streams.OUTCOMES),
    (outcomes.apply, commands.apply),
    per_partition=True,
    sweeper=UPKEEP,
)
# commands about more than one plan -> the records that apply to each of them, now and later
COMMANDS = Route("planner.commands", (streams.COMMANDS,), (bulk_commands.record, bulk_commands.lift), is_slow=True)
# ends of plans and waits for people -> signed requests to endpoints, until each has it; worker/callbacks
CALLBACKS = Route("planner.callbacks", (streams.OUTBOX,), (), per_partition=True, timers=streams.CALLBACKS)
# deliveries of webhooks before they are goals -> goals with facts from their forge, commands that cancel older plans
WEBHOOKS = Route("planner.webhooks", (streams.WEBHOOK_JOBS,), (), is_slow=True)
ROUTES = (GOALS, OUTCOMES, COMMANDS, UPKEEP, CALLBACKS, WEBHOOKS)
