"""What keeps a plan from starting anything from outside of it: wider orders, day budgets, a full server.

The plan remembers why, so that its log tells when it was held and the wall clock stands still meanwhile.
"""

from __future__ import annotations

from schemas.times import DAY_MS
from tasks.plan.unit_of_work import PAUSED, UnitOfWork
from tasks.policy import halt

MEMORY_MS = 5000  # until a plan is looked at again that was held because the server is full


def look(unit: UnitOfWork) -> None:
    """Obey the widest order that stands; else hold the plan, or let it go on."""
    plan, order = unit.plan, unit.snapshot.order
    if order and order.command != "pause":
        _halt(unit)
        return
    if plan.paused_until and unit.snapshot.now >= plan.paused_until:
        unit.inputs.append(["pause over", plan.paused_until])
        plan.paused, plan.paused_until = "", 0
        plan.dirty.add("live")
    why, until = _reason(unit)
    if why != plan.held:
        unit.inputs.append(["held", why, *(order or ())])
        unit.emit("plan.held" if why else "plan.released", {}, why or plan.held)
        plan.held = why
        plan.dirty.add("live")
    for end in (until, plan.paused_until):
        if end:
            unit.wake_at(end)


def _halt(unit: UnitOfWork) -> None:
    order = unit.snapshot.order
    assert order is not None  # noqa: S101 (the caller looked)
    unit.inputs.append(["order", *order])
    evidence = {"actor": order.actor, "command_id": order.command_id, "scope": order.scope}
    halt.halt(unit, "manual", f"{order.command} of {order.scope} by {order.actor}: {order.reason}", evidence)


def _reason(unit: UnitOfWork) -> tuple[str, int]:
    """Say why the plan is held and until when, ms; 0 for no known end."""
    order, now = unit.snapshot.order, unit.snapshot.now
    if order:
        return f"{PAUSED}{order.scope} by {order.actor}: {order.reason}", order.until
    for scope, grant in unit.snapshot.grants.items():
        if grant.exhausted and grant.left <= 0:
            return f"the day budget of {scope} is used up", (now // DAY_MS + 1) * DAY_MS
    if unit.snapshot.short_of_memory:
        return "the server's memory is nearly full", now + MEMORY_MS
    return "", 0
