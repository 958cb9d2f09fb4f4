"""Commands about more than one plan -> what stands for each of them, now and later.

A pause or a halt stands until it is lifted by `resume` or its time is over, and so for plans yet to come; a cancel is
for those that were there. What stands is kept as {"<command> <scope>": record}, one of a kind for each scope. A
queue is only paused: it holds steps, not plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from schemas import codec
from schemas.command import Command, CommandName, Scope
from schemas.times import milliseconds
from tasks.base.series import series_name
from tasks.plan.snapshot import StandingCommand

Records: TypeAlias = Mapping[bytes, bytes]

WIDE = frozenset({Scope.REPOSITORY, Scope.TENANT, Scope.QUEUE, Scope.ALL})
LIFTED = (CommandName.PAUSE, CommandName.HALT)
PAUSED_QUEUE = f"{CommandName.PAUSE.value} {Scope.QUEUE.value}:"  # what the name of a record about a queue begins with
PAUSED_BY_BREAKER = f"{CommandName.PAUSE.value} breaker:"  # and of one about a tenant's repository, by its breaker
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
    """Say what is to be kept of a pause, a halt or a cancel beside `records`; nothing more if it is among them."""
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
    """Name what a resume lifts: what stands for its scope, and what the breakers of repositories in it have paused."""
    found = [name.decode() for name, raw in records.items() if name.startswith(PAUSED_BY_BREAKER.encode())]
    broken = [name for name in found if _is_breaker_of(command, codec.loads(records[name.encode()]))]
    return [*(f"{name.value} {scope_of(command)}" for name in LIFTED), *broken]


def _is_breaker_of(command: Command, record: Mapping[str, Any]) -> bool:
    named = {Scope.REPOSITORY: record["repo"], Scope.TENANT: record["tenant"]}
    return command.scope is Scope.ALL or named.get(command.scope) == command.target


def breakers_among(names: Iterable[str]) -> list[str]:
    """Name the tenants with repositories whose breakers' pauses are among these records, as fields have them."""
    return [name.removeprefix(PAUSED_BY_BREAKER) for name in names if name.startswith(PAUSED_BY_BREAKER)]


def breaker_pause(tenant: str, repo: str) -> str:
    """Name the record of the pause of a tenant's repository by its breaker; no command can name such a scope."""
    return f"{PAUSED_BY_BREAKER}{series_name(tenant, repo)}"


def find_probe(records: Records, tenant: str, repo: str | None, plan_id: str) -> str:
    """Find the token of the step that a breaker lets through, if that is to be one of this plan."""
    raw = records.get(breaker_pause(tenant, repo).encode()) if repo else None
    plan, token = codec.loads(raw).get("probe", ("", "")) if raw else ("", "")
    return str(token) if plan == plan_id else ""


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
    given = {name.decode(): raw for name, raw in records.items() if name != COUNT}
    pairs = (
        (*name.partition(" ")[::2], codec.loads(raw))
        for name, raw in given.items()
        if not name.startswith(PAUSED_BY_BREAKER)
    )
    found = [StandingCommand.read(command, scope, record) for command, scope, record in pairs if command in LIFTED]
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
    if repo and (raw := records.get(breaker_pause(tenant, repo).encode())):
        return StandingCommand.read(CommandName.PAUSE.value, f"repository:{repo} of {tenant}", codec.loads(raw))
    return None
