"""Orders of operators -> change (WIRE.md section 4): what they may do to one plan, as a table.

An order is obeyed once: its id is remembered. A budget can only be topped up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from schemas.base import StepState as S
from schemas.command import Command, CommandName
from tasks import outcomes
from tasks.change import Change
from tasks.fold import Fold
from tasks.policy import halting
from tasks.policy.budget import BUDGETS
from tasks.policy.lifecycle import PLAN_ENDS
from tasks.view import Slice

REMEMBERED = 64  # ids of orders a plan keeps

Refusal = str | None  # why an order cannot be obeyed


def apply(view: Slice, orders: Sequence[Command]) -> Change:
    """Obey `orders` in turn and carry on with the plan; each is told as obeyed, refused or known already."""
    fold = Fold(view)
    for order in orders:
        _obey(fold, order)
    return outcomes.advance(fold)


def _obey(fold: Fold, order: Command) -> None:
    told = {"command_id": order.command_id, "command": order.command.value, "actor": order.actor}
    if order.step_id:
        told["step_id"] = order.step_id
    if order.command_id in fold.plan.orders:
        fold.tell("command.known", told)
        return
    refusal = "the plan has ended" if fold.plan.state in PLAN_ENDS else _HANDLERS[order.command](fold, order)
    fold.inputs.append(["command", order.model_dump(mode="json", exclude_none=True)])
    fold.plan.orders = [*fold.plan.orders, order.command_id][-REMEMBERED:]
    fold.plan.dirty.add("live")
    fold.tell("command.refused" if refusal else "command.obeyed", told, refusal or order.reason)


def _pause(fold: Fold, order: Command) -> Refusal:
    fold.plan.paused = f"{order.actor}: {order.reason}"
    return None


def _resume(fold: Fold, _: Command) -> Refusal:
    fold.plan.paused = ""
    return None


def _halt(fold: Fold, order: Command) -> Refusal:
    evidence = {"actor": order.actor, "command_id": order.command_id}
    halting.halt(fold, "manual", f"{order.command.value} by {order.actor}: {order.reason}", evidence)
    return None


def _top_up(fold: Fold, order: Command) -> Refusal:
    """Raise limits by the amounts in `value`, such as {"tokens": 50000}."""
    amounts = order.value if isinstance(order.value, dict) else {}
    allowed = {*BUDGETS, "wall_clock_s"}
    good = all(name in allowed and type(amount) is int and 0 < amount <= 10**9 for name, amount in amounts.items())
    if not amounts or not good:
        return f"`value` must give positive whole numbers for some of {', '.join(sorted(allowed))}"
    for name, amount in amounts.items():
        limit = fold.plan.limits[name]
        fold.plan.limits[name] = None if limit is None else limit + amount
    fold.plan.warned = [name for name in fold.plan.warned if name not in amounts]
    fold.plan.dirty.update(("head", "live"))
    return None


def _approve(fold: Fold, order: Command) -> Refusal:
    if order.step_id not in fold.plan.waits:
        return "the step does not wait for an approval"
    step = fold.view.steps[order.step_id]
    del fold.plan.waits[order.step_id]
    step.status.approval = f"{order.actor}: {order.reason}"
    fold.touched[step.step_id] = step
    fold.make_ready(step)
    return None


def _reject(fold: Fold, order: Command) -> Refusal:
    if order.step_id not in fold.plan.waits:
        return "the step does not wait for an approval"
    evidence = {"actor": order.actor, "command_id": order.command_id, "step_id": order.step_id}
    halting.halt(fold, "approval_rejected", f"{order.step_id} was rejected by {order.actor}: {order.reason}", evidence)
    return None


def _skip(fold: Fold, order: Command) -> Refusal:
    """Skip a step that waits to start; those that depend on it go on as if it were done."""
    step = fold.view.steps.get(order.step_id or "")
    if step is None or step.status.state != S.PENDING:
        return "only a step that waits to start can be skipped"
    fold.ready.pop(step.step_id, None)
    fold.plan.waits.pop(step.step_id, None)
    step.status.skipped_by = order.actor
    fold.plan.halting["skipped_by_operator"] = fold.plan.halting.get("skipped_by_operator", 0) + 1
    fold.move_step(step, S.SKIPPED.value, "skipped", f"{order.actor}: {order.reason}")
    fold.end_step(step)
    return None


def _not_yet(_: Fold, order: Command) -> Refusal:
    return f"`{order.command.value}` is not understood by this version"


_HANDLERS: Mapping[CommandName, Callable[[Fold, Command], Refusal]] = {
    CommandName.PAUSE: _pause,
    CommandName.RESUME: _resume,
    CommandName.CANCEL: _halt,
    CommandName.HALT: _halt,
    CommandName.TOP_UP: _top_up,
    CommandName.APPROVE: _approve,
    CommandName.REJECT: _reject,
    CommandName.SKIP: _skip,
    CommandName.ANSWER: _not_yet,
    CommandName.TIGHTEN: _not_yet,
}
