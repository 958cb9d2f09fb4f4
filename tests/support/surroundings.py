"""State wider than a plan in the memory store: standing commands, day budgets, full queues and outages."""

from __future__ import annotations

from typing import Any

from schemas.command import Command
from tasks.handlers.bulk_commands import lift, record
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, Running
from worker.store.plans import MAX_QUEUE

TENANT = "tenant:acme"


def wide_order(number: int, name: str, scope: str) -> Command:
    """Return a command about all plans, the tenant acme, its repository, or the queue of all its steps."""
    target = {"tenant": "acme", "repository": "acme/shop", "queue": "default"}.get(scope)
    body = {"command_id": f"w-{number}", "command": name, "scope": scope, "target": target}
    return Command.model_validate({**body, "actor": "ada", "reason": "why"})


def surrounded(*steps: Any, day_tokens: int | None, **limits: Any) -> Running:
    """Return a plan of acme, with a day budget unless `day_tokens` is None."""
    store = MemoryStore(PARTITION)
    store.budgets = {} if day_tokens is None else {TENANT: day_tokens}
    return Running(*steps, store=store, tenant="acme", repo="acme/shop", budgets=[*store.budgets], **limits)


def alter(plan: Running, number: int, what: str, value: Any) -> None:
    """Change something around `plan`, and have the plan react to it."""
    store = plan.store
    scopes = store.hash(PARTITION.scopes)
    if what == "stand":
        scopes.update(record(wide_order(number, *value), store.now, {}))
    elif what == "lift":
        for name in lift(wide_order(number, "resume", value), {}):
            scopes.pop(name, None)
    elif what == "memory":
        plan.short_of_memory = value
    elif what == "queue":
        store.max_queue = value
    elif what == "outage":
        plan.outage(value)
    elif TENANT in store.budgets:  # it is topped up
        store.budgets[TENANT] += value
        store.give(TENANT, 0)
    plan.look()


def clear(plan: Running) -> None:
    """Remove everything that holds `plan` back."""
    for scope in ("all", "tenant", "repository", "queue"):
        alter(plan, 0, "lift", scope)
    alter(plan, 0, "memory", value=False)
    alter(plan, 0, "queue", MAX_QUEUE)
    alter(plan, 0, "budget", 10**9)


def a_wide_order(name: str, scope: str = "tenant", target: str | None = "acme", **more: Any) -> Command:
    body = {"command_id": "c-1", "command": name, "scope": scope, "target": target, "actor": "ada", "reason": "why"}
    return Command.model_validate(body | more)
