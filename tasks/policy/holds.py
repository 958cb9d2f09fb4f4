"""What keeps a plan from starting anything from outside of it: wider orders, day budgets, a full server.

The plan remembers why, so that its log tells when it was held and the wall clock stands still meanwhile.
"""

from __future__ import annotations

from schemas.times import DAY_MS
from tasks.plan.unit_of_work import PAUSED, Fold
from tasks.policy import halt

MEMORY_MS = 5000  # until a plan is looked at again that was held because the server is full


def look(fold: Fold) -> None:
    """Obey the widest order that stands; else hold the plan, or let it go on."""
    plan, order = fold.plan, fold.view.order
    if order and order.command != "pause":
        _halt(fold)
        return
    if plan.paused_until and fold.view.now >= plan.paused_until:
        fold.inputs.append(["pause over", plan.paused_until])
        plan.paused, plan.paused_until = "", 0
        plan.dirty.add("live")
    why, until = _reason(fold)
    if why != plan.held:
        fold.inputs.append(["held", why, *(order or ())])
        fold.tell("plan.held" if why else "plan.released", {}, why or plan.held)
        plan.held = why
        plan.dirty.add("live")
    for end in (until, plan.paused_until):
        if end:
            fold.wake_at(end)


def _halt(fold: Fold) -> None:
    order = fold.view.order
    assert order is not None  # noqa: S101 (the caller looked)
    fold.inputs.append(["order", *order])
    evidence = {"actor": order.actor, "command_id": order.command_id, "scope": order.scope}
    halt.halt(fold, "manual", f"{order.command} of {order.scope} by {order.actor}: {order.reason}", evidence)


def _reason(fold: Fold) -> tuple[str, int]:
    """Say why the plan is held and until when, ms; 0 for no known end."""
    order, now = fold.view.order, fold.view.now
    if order:
        return f"{PAUSED}{order.scope} by {order.actor}: {order.reason}", order.until
    for scope, grant in fold.view.grants.items():
        if grant.exhausted and grant.left <= 0:
            return f"the day budget of {scope} is used up", (now // DAY_MS + 1) * DAY_MS
    if fold.view.short_of_memory:
        return "the server's memory is nearly full", now + MEMORY_MS
    return "", 0
