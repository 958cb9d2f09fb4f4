"""What is known of the commands about more than one plan that were obeyed lately, so that each is obeyed once.

The id of a command is for its tenant or its queue: those of two tenants may be the same. Repositories and all plans,
which no tenant's key reaches, share theirs.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from redis import Redis

from schemas import codec
from schemas.command import Command, Scope
from tasks.handlers.bulk_commands import scope_of
from worker.store import functions, keys

KNOWN_S = 7 * 86_400  # for which a command that comes again is known
DIGEST_BYTES = 16
BODY = ("command", "scope", "target", "value", "until")  # of a command that comes again


def is_same(client: Redis, command: Command) -> bool | None:
    """Return whether the command that was obeyed under this id had the same body; None where there was none lately."""
    found: Any = client.get(_key(command))
    return found.decode().partition(" ")[2] == _digest(command) if found else None


def keep(client: Redis, command: Command) -> None:
    """Keep that a command was obeyed, or refused."""
    value = f"{command.command.value} {_digest(command)}"
    functions.call(client, "FCALL", functions.REMEMBER, 1, _key(command), value, KNOWN_S)


def _key(command: Command) -> str:
    """Name where a command is known; the scope by its digest, since targets and ids may hold any character."""
    if command.scope not in (Scope.TENANT, Scope.QUEUE):
        return f"{keys.COMMANDS_KNOWN}:{command.command_id}"
    scope = blake2b(scope_of(command).encode(), digest_size=DIGEST_BYTES).hexdigest()
    return f"{keys.COMMANDS_KNOWN}:{scope}:{command.command_id}"


def _digest(command: Command) -> str:
    said = command.model_dump(mode="json", include=set(BODY))
    return blake2b(codec.canonical(said), digest_size=DIGEST_BYTES).hexdigest()
