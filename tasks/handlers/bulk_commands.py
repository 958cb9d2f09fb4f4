"""Commands about more than one plan -> what stands for each of them, now and later.

A pause or a halt stands until it is lifted by `resume` or its time is over, and so for plans yet to come; a cancel is
for those that were there. What stands is kept as {"<command> <scope>": record}, one of a kind for each scope. A
queue is only paused: it holds steps, not plans.
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
PAUSED_QUEUE = f"{CommandName.PAUSE.value} {Scope.QUEUE.value}:"  # what the name of a record about a queue begins with
COUNT = b"commands"  # beside the records: how many commands there were


def scope_of(command: Command) -> str:
    """Name the scope of a command as it is kept."""
    return Scope.ALL.value if command.scope is Scope.ALL else f"{command.scope.value}:{command.target}"


def scopes_of(tenant: str, repo: str | None) -> list[str]:
    """Name the scopes that a plan is in, the widest first."""
    found = [Scope.ALL.value, f"{Scope.TENANT.value}:{tenant}"]
    return [*found, f"{Scope.REPOSITORY.value}:{repo}"] if repo else found


def named_by(scope: str) -> dict[str, str]:
    """Name the tenant or the repository that is a scope, as events do."""
    what, _, name = scope.partition(":")
    field = {Scope.TENANT.value: "tenant", Scope.REPOSITORY.value: "repo"}.get(what)
    return {field: name} if field else {}


def reaches(scope: str, tenant: str, repo: str | None) -> bool:
    """Whether a command of that scope may be about such a plan; any plan may have steps of a queue."""
    return scope.startswith(f"{Scope.QUEUE.value}:") or scope in scopes_of(tenant, repo)


def record(command: Command, now: int, records: Records) -> dict[str, bytes]:
    """Return what is to be kept of a pause, a halt or a cancel beside `records`; nothing more if it is among them."""
    name = f"{command.command.value} {scope_of(command)}"
    found = records.get(name.encode())
    if found and codec.loads(found)["command_id"] == command.command_id:
        return {}
    until = milliseconds(command.until) if command.until else 0
    kept = {"actor": command.actor, "reason": command.reason, "command_id": command.command_id, "until": until}
    if command.command is CommandName.CANCEL:
        kept |= {"until": 0, "before": now}  # harmless to later plans, and the next cancel takes its place
    return {name: codec.dumps(kept)}


def lift(command: Command, records: Records) -> list[str]:
    """Name what a resume lifts: what stands for its scope, and what features have paused there."""
    given = [f"{name.value} {scope_of(command)}" for name in LIFTED]
    return [*given, *(name for find in LIFT for name in find(records, command))]


def find_probe(records: Records, tenant: str, repo: str | None, plan_id: str) -> str:
    """Find the token of a step of the plan that may start although its repository is paused."""
    return next(filter(None, (find(records, tenant, repo, plan_id) for find in LET_THROUGH)), "") if repo else ""


def is_over(command: Command, now: int) -> bool:
    """Whether a command would be over before it begins."""
    return command.until is not None and milliseconds(command.until) <= now


def find_over(records: Records, now: int) -> list[bytes]:
    """Name the records whose time is over."""
    return [name for name, raw in records.items() if name != COUNT and 0 < codec.loads(raw)["until"] <= now]


def find_paused_queues(records: Records, now: int) -> dict[str, StandingCommand]:
    """Find the queues of which no step may start now, each with the command that says so."""
    found = {}
    for name, raw in records.items():
        if name.startswith(PAUSED_QUEUE.encode()):
            command, _, scope = name.decode().partition(" ")
            standing = StandingCommand.read(command, scope, codec.loads(raw))
            if not 0 < standing.until <= now:
                found[scope.partition(":")[2]] = standing
    return found


def list_standing(records: Records, now: int) -> list[StandingCommand]:
    """List the pauses and halts that people gave and that stand, sorted by what they are about."""
    named = ((*name.decode().partition(" ")[::2], raw) for name, raw in records.items() if name != COUNT)
    found = [
        StandingCommand.read(command, scope, codec.loads(raw))
        for command, scope, raw in named
        if command in LIFTED and scope.partition(":")[0] in SCOPES
    ]
    return sorted((each for each in found if not 0 < each.until <= now), key=lambda each: (each.scope, each.command))


def find_standing(records: Records, tenant: str, repo: str | None, created: int, now: int) -> StandingCommand | None:
    """Find what stands for a plan: what ends it before what pauses it, the widest first."""
    if not records:
        return None
    for command in (CommandName.HALT, CommandName.CANCEL, CommandName.PAUSE):
        for scope in scopes_of(tenant, repo):
            raw = records.get(f"{command.value} {scope}".encode())
            record = codec.loads(raw) if raw else None
            if record and now < (record["until"] or now + 1) and created <= record.get("before", created):
                return StandingCommand.read(command.value, scope, record)
    return next(filter(None, (find(records, tenant, repo) for find in STANDING)), None) if repo else None
