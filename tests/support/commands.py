"""Commands about one plan, and how a plan of the memory store obeys them."""

from __future__ import annotations

from typing import Any

from schemas.command import Command
from schemas.times import rfc3339
from tests.support.plans import PLAN, Running

WEEK_MS = 7 * 86_400_000


def an_order(
    name: str, step: str | None = None, value: Any = None, order_id: str = "o-1", until: int | None = None
) -> Command:
    return Command.model_validate(
        {
            "command_id": order_id,
            "command": name,
            "scope": "step" if step else "plan",
            "plan_id": PLAN,
            "step_id": step,
            "actor": "ada",
            "reason": "because",
            "value": value,
            "until": rfc3339(until) if until else None,
        }
    )


def order(plan: Running, name: str, step: str | None = None, value: Any = None, **more: Any) -> str:
    """Apply a command as the engine would; return the result that its event names: obeyed, refused or known."""
    plan.obey(an_order(name, step, value, **more))
    (told,) = [kind for change in plan.changes[-2:] for kind, _ in change.events if ".command." in kind][-1:]
    return told.split(".")[3]
