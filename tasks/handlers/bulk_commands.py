"""Turns commands about more than one plan into records, which apply to each plan of a scope, now and later.

A pause or a halt applies until `resume` lifts it or its time is over, and so to later plans, too. A cancel applies only
to the plans that exist. A record is stored under "<command> <scope>", so each scope has one record for each command. A
queue can only be paused: that keeps back steps, not plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from schemas import codec
from schemas.command import Command, CommandName, Scope
from schemas.times import milliseconds
from tasks.plan.snapshot import StandingCommand
from tasks.policy.pipeline import LET_THROUGH, LIFT, STANDING

Records: TypeAlias = Mapping[bytes, bytes]

SCOPES = frozenset(scope.value for scope in Scope)
WIDE = frozenset({Scope.REPOSITORY, Scope.TENANT, Scope.QUEUE, Scope.ALL})
LIFTED = (CommandName.PAUSE, CommandName.HALT)
PAUSED_QUEUE = f"{CommandName.PAUSE.value} {Scope.QUEUE.value}:"  # prefix of the name of a record about a queue
COUNT = b"commands"  # next to the records: the number of commands so far


def scope_of(command: Command) -> str:
    """Return the stored name of a command's scope."""
    return Scope.ALL.value if command.scope is Scope.ALL else f"{command.scope.value}:{command.target}"


def scopes_of(tenant: str, repo: str | None) -> list[str]:
    """Return the scopes of a plan, widest first."""
    found = [Scope.ALL.value, f"{Scope.TENANT.value}:{tenant}"]
    return [*found, f"{Scope.REPOSITORY.value}:{repo}"] if repo else found


def named_by(scope: str) -> dict[str, str]:
    """Return the tenant or the repository of a scope as fields of an event."""
    what, _, name = scope.partition(":")
    field = {Scope.TENANT.value: "tenant", Scope.REPOSITORY.value: "repo"}.get(what)
    return {field: name} if field else {}


def reaches(scope: str, tenant: str, repo: str | None) -> bool:
    """Return whether a command of that scope may affect such a plan; any plan may have steps of a queue."""
    return scope.startswith(f"{Scope.QUEUE.value}:") or scope in scopes_of(tenant, repo)


def record(command: Command, now: int, records: Records) -> dict[str, bytes]:
    """Return the records to store for a pause, a halt or a cancel; empty if `records` already has the command."""
    name = f"{command.command.value} {scope_of(command)}"
    found = records.get(name.encode())
    if found and codec.loads(found)["command_id"] == command.command_id:
        return {}
    until = milliseconds(command.until) if command.until else 0
    kept = {"actor": command.actor, "reason": command.reason, "command_id": command.command_id, "until": until}
    if command.command is CommandName.CANCEL:
        kept |= {"until": 0, "before": now}  # does not affect later plans; the next cancel replaces it
    return {name: codec.dumps(kept)}


def lift(command: Command, records: Records) -> list[str]:
    """Return the names of the records that a resume lifts: of its scope, and of breakers and other features in it."""
    given = [f"{name.value} {scope_of(command)}" for name in LIFTED]
    return [*given, *(name for find in LIFT for name in find(records, command))]


def find_probe(records: Records, tenant: str, repo: str | None, plan_id: str) -> str:
    """Return the token of a step that may start although the plan's repository is paused; empty if there is none."""
    return next(filter(None, (find(records, tenant, repo, plan_id) for find in LET_THROUGH)), "") if repo else ""


def is_over(command: Command, now: int) -> bool:
    """Return whether a command would end before it begins."""
    return command.until is not None and milliseconds(command.until) <= now


def find_over(records: Records, now: int) -> list[bytes]:
    """Return the names of the records whose time is over."""
    return [name for name, raw in records.items() if name != COUNT and 0 < codec.loads(raw)["until"] <= now]


def find_paused_queues(records: Records, now: int) -> dict[str, StandingCommand]:
    """Return the paused queues, each with its command; their steps do not start."""
    found = {}
    for name, raw in records.items():
        if name.startswith(PAUSED_QUEUE.encode()):
            command, _, scope = name.decode().partition(" ")
            standing = StandingCommand.read(command, scope, codec.loads(raw))
            if not 0 < standing.until <= now:
                found[scope.partition(":")[2]] = standing
    return found


def list_standing(records: Records, now: int) -> list[StandingCommand]:
    """Return the pauses and halts by people that are in force, sorted by scope."""
    named = ((*name.decode().partition(" ")[::2], raw) for name, raw in records.items() if name != COUNT)
    found = [
        StandingCommand.read(command, scope, codec.loads(raw))
        for command, scope, raw in named
        if command in LIFTED and scope.partition(":")[0] in SCOPES
    ]
    return sorted((each for each in found if not 0 < each.until <= now), key=lambda each: (each.scope, each.command))


def find_standing(records: Records, tenant: str, repo: str | None, created: int, now: int) -> StandingCommand | None:
    """Return the record that applies to a plan; None if no record does.

    A halt takes precedence over a cancel, and a cancel over a pause. Among equal commands the widest scope comes first,
    and pauses by features come last.
    """
    if not records:
        return None
    for command in (CommandName.HALT, CommandName.CANCEL, CommandName.PAUSE):
        for scope in scopes_of(tenant, repo):
            raw = records.get(f"{command.value} {scope}".encode())
            record = codec.loads(raw) if raw else None
            if record and now < (record["until"] or now + 1) and created <= record.get("before", created):
                return StandingCommand.read(command.value, scope, record)
    return next(filter(None, (find(records, tenant, repo) for find in STANDING)), None) if repo else None
