"""Commands of operators -> changeset: their effects on one plan, as a table.

A command is applied once: the plan remembers its id. A budget can only be raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.command import Command, CommandName, Scope
from schemas.times import milliseconds
from tasks.base.errors import NeedsSteps
from tasks.handlers.bulk_commands import WIDE, is_over
from tasks.plan.changeset import Changeset
from tasks.plan.lifecycle import NOT_RUNNING, PLAN_ENDS
from tasks.plan.snapshot import Snapshot
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import expansion, halt, operator_changes
from tasks.policy.schedule import advance
from tasks.rules.budget import BUDGETS
from tasks.rules.risk import RISK
from tasks.text.fields import fit

MAX_NAMED, MAX_PATH = 5, 200  # files in a refusal, characters of each
REMEMBERED = 64  # ids of commands that a plan keeps

_WHILE_ASKING = frozenset({CommandName.ANSWER, CommandName.CANCEL, CommandName.HALT})

OPEN = frozenset({S.PENDING.value, S.BLOCKED.value, S.ACTIVE.value})

Refusal = str | None  # why a command is refused

_STEP, _PLAN = frozenset({Scope.STEP}), frozenset({Scope.PLAN})
_ANY = _PLAN | WIDE - {Scope.QUEUE}

# The scopes of each command. A wider top-up raises a day budget.
SCOPES: Mapping[CommandName, frozenset[Scope]] = MappingProxyType(
    {
        CommandName.PAUSE: _PLAN | WIDE,
        CommandName.RESUME: _PLAN | WIDE,
        CommandName.CANCEL: _ANY,
        CommandName.HALT: _ANY,
        CommandName.APPROVE: _STEP,
        CommandName.REJECT: _STEP,
        CommandName.ANSWER: _PLAN | _STEP,
        CommandName.SKIP: _STEP,
        CommandName.TIGHTEN: _PLAN | _STEP,
        CommandName.TOP_UP: _PLAN | {Scope.TENANT, Scope.REPOSITORY},
    }
)


def apply(snapshot: Snapshot, commands: Sequence[Command]) -> Changeset:
    """Apply `commands` in turn and continue the plan; an event reports the result of each."""
    unit = UnitOfWork(snapshot)
    for command in commands:
        _obey(unit, command)
    return advance(unit)


def needs_reconcile(plan_id: str, base: int) -> Command:
    """Return the planner's own pause for a plan of a server that lost everything after commit `base`."""
    return Command(
        command_id=f"needs-reconcile-{base}",
        command=CommandName.PAUSE,
        scope=Scope.PLAN,
        plan_id=plan_id,
        actor="planner",
        reason=f"needs_reconcile: the server lost what came after its commit {base}; "
        "look at the plan and its repository, then resume it",
    )


def _obey(unit: UnitOfWork, command: Command) -> None:
    data = {"command_id": command.command_id, "command": command.command.value, "actor": command.actor}
    if command.step_id:
        data["step_id"] = command.step_id
    if command.command_id in unit.plan.commands:
        unit.emit("command.known", data)
        return
    refusal = _untimely(unit, command) or _HANDLERS[command.command](unit, command)
    told = command.model_dump(mode="json", exclude_none=True)
    unit.inputs.append(["command", told, refusal] if refusal else ["command", told])
    unit.plan.commands = [*unit.plan.commands, command.command_id][-REMEMBERED:]
    unit.plan.dirty.add("live")
    unit.emit("command.refused" if refusal else "command.obeyed", data, refusal or command.reason)


def _untimely(unit: UnitOfWork, command: Command) -> Refusal:
    """Return why the plan does not take a command now; None if it does."""
    plan = unit.plan
    if plan.state in PLAN_ENDS:
        return "the plan has ended"
    if plan.state in NOT_RUNNING and not plan.question:
        return "the plan is still being made"
    if plan.state == P.CREATED and command.command not in _WHILE_ASKING:
        return "the plan waits for an answer before it can be made: answer it or cancel it"
    return None


def _pause(unit: UnitOfWork, command: Command) -> Refusal:
    if is_over(command, unit.snapshot.now):
        return "`until` is over"
    unit.plan.paused = f"{command.actor}: {command.reason}"
    unit.plan.paused_until = milliseconds(command.until) if command.until else 0
    return None


def _resume(unit: UnitOfWork, _: Command) -> Refusal:
    if not unit.plan.paused:
        return "the plan is not paused" + (f", but held: {unit.plan.held}" if unit.plan.held else "")
    unit.plan.paused, unit.plan.paused_until = "", 0
    return None


def _halt(unit: UnitOfWork, command: Command) -> Refusal:
    evidence = {"actor": command.actor, "command_id": command.command_id}
    halt.halt(unit, "manual", f"{command.command.value} by {command.actor}: {command.reason}", evidence)
    return None


def _top_up(unit: UnitOfWork, command: Command) -> Refusal:
    """Raise limits by the amounts in `value`, such as {"tokens": 50000}."""
    amounts = command.value if isinstance(command.value, dict) else {}
    allowed = {*BUDGETS, "wall_clock_s"}
    good = all(name in allowed and type(amount) is int and 0 < amount <= 10**9 for name, amount in amounts.items())
    if not amounts or not good:
        return f"`value` must give positive whole numbers for some of {', '.join(sorted(allowed))}"
    for name, amount in amounts.items():
        limit = unit.plan.limits[name]
        unit.plan.limits[name] = None if limit is None else limit + amount
    unit.plan.warned = [name for name in unit.plan.warned if name not in amounts]
    unit.plan.dirty.update(("head", "live"))
    return None


def _approve(unit: UnitOfWork, command: Command) -> Refusal:
    if command.step_id not in unit.plan.waits:
        return "the step does not wait for an approval"
    step = unit.snapshot.steps[command.step_id]
    del unit.plan.waits[command.step_id]
    step.status.approval = f"{command.actor}: {command.reason}"
    unit.touched[step.step_id] = step
    unit.make_ready(step)
    return None


def _reject(unit: UnitOfWork, command: Command) -> Refusal:
    if command.step_id not in unit.plan.waits:
        return "the step does not wait for an approval"
    evidence = {"actor": command.actor, "command_id": command.command_id, "step_id": command.step_id}
    reason = f"{command.step_id} was rejected by {command.actor}: {command.reason}"
    halt.halt(unit, "approval_rejected", reason, evidence)
    return None


def _skip(unit: UnitOfWork, command: Command) -> Refusal:
    step = unit.snapshot.steps.get(command.step_id or "")
    if step is None or step.status.state not in OPEN:
        return "only a step that has not ended can be skipped"
    return operator_changes.skip(unit, step, command.actor, command.reason)


def _tighten(unit: UnitOfWork, command: Command) -> Refusal:
    """Restrict files to `value.allowed_files`, or raise the risk of a step to `value.risk_level`."""
    value = command.value if isinstance(command.value, dict) else {}
    files, risk = value.get("allowed_files"), value.get("risk_level")
    if not value or set(value) - {"allowed_files", "risk_level"} or not _are_words(files or ()):
        return "`value` must give a list of `allowed_files`, a `risk_level`, or both"
    if risk is not None and (command.step_id is None or risk not in list(RISK)):  # it may be anything, even unhashable
        return f"`risk_level` is for one step and one of {', '.join(RISK)}"
    if command.step_id is None:
        if unknown := operator_changes.files_of_no_step(unit, files or ()):
            named = ", ".join(fit(path, MAX_PATH) for path in unknown[:MAX_NAMED])
            return f"no step of the plan has {named}, and an allowlist can only be tightened"
        operator_changes.tighten_plan(unit, files or ())
        return None
    step = unit.snapshot.steps.get(command.step_id)
    if step is None or step.status.state not in OPEN or step.status.skipped_by:
        return "only a step that has not ended, and will not be skipped, can be tightened"
    if wider := sorted({*(files or ())} - {*step.facts["allowed_files"]}):
        return f"{fit(wider[0], MAX_PATH)} is not among the files of the step, and an allowlist can only be tightened"
    refusal = operator_changes.risk_refusal(unit, step, risk, files) if risk else None
    if files is not None and not refusal:
        operator_changes.tighten_step(unit, step, files)
    if risk and not refusal and step.status.state in OPEN:
        operator_changes.raise_risk(unit, step, risk)
    return refusal


def _are_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _answer(unit: UnitOfWork, command: Command) -> Refusal:
    """Answer the question of a plan's strategy, else the question whether a step may start.

    If several steps wait, the command has to name one.
    """
    if command.question and command.question != (unit.plan.question or {}).get("kind"):
        return f"the plan does not ask that now ({fit(command.question, MAX_PATH)})"
    if unit.plan.question and not command.step_id:
        return expansion.answer(unit, command.value, {"actor": command.actor, "command_id": command.command_id})
    asked = sorted(unit.plan.waits)
    if not asked:
        return "the plan asks, no step does: name none" if unit.plan.question else "the plan asks nothing"
    step_id = command.step_id or asked[0]
    if len(asked) > 1 and not command.step_id:
        return f"the plan asks about several steps, name one: {', '.join(asked)}"
    handler = _ANSWERS.get(command.value) if isinstance(command.value, str) else None
    if handler is None:
        return "the question is answered by yes or no"
    if step_id in asked and step_id not in unit.snapshot.steps:
        raise NeedsSteps(frozenset({step_id}))
    return handler(unit, command.model_copy(update={"step_id": step_id}))


_ANSWERS: Mapping[str, Callable[[UnitOfWork, Command], Refusal]] = {"yes": _approve, "no": _reject}


_HANDLERS: Mapping[CommandName, Callable[[UnitOfWork, Command], Refusal]] = {
    CommandName.PAUSE: _pause,
    CommandName.RESUME: _resume,
    CommandName.CANCEL: _halt,
    CommandName.HALT: _halt,
    CommandName.TOP_UP: _top_up,
    CommandName.APPROVE: _approve,
    CommandName.REJECT: _reject,
    CommandName.SKIP: _skip,
    CommandName.ANSWER: _answer,
    CommandName.TIGHTEN: _tighten,
}
