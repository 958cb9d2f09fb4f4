"""The audit log: one entry for each act of a person or a key, and for each refusal, kept by age.

Only the planner's own Redis user writes here, so that no operator can change an entry. Refusals have a separate stream,
so that a flood of them removes no act. Changes of policies are read from the policies' own history.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from heapq import merge
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import OutOfMemoryError

from schemas import codec
from schemas.command import Command
from schemas.times import rfc3339
from tasks.handlers.bulk_commands import scope_of
from worker.store import functions, keys, policies

log = logging.getLogger("planner.audit")

DONE, REFUSED = "done", "refused"
MOST_ACTS, MOST_REFUSALS = 200_000, 20_000  # maximum number of entries, regardless of age
MOST_CHARS = 300  # of each word of an entry
PAGE = 1000


class Act(NamedTuple):
    """An entry of the audit log without its time: `origin` is where the request came from, `about` is the target."""

    act: str
    by: str
    origin: str
    about: str
    result: str = DONE
    reason: str = ""


def call_of(act: Act) -> tuple[Any, ...]:
    """Return the command that writes an act; a server with full memory accepts it, too."""
    stream, most = (keys.AUDIT_REFUSALS, MOST_REFUSALS) if act.result == REFUSED else (keys.AUDIT, MOST_ACTS)
    said = {**act._asdict(), "from": act.origin}
    del said["origin"]
    data = codec.dumps({name: value[:MOST_CHARS] for name, value in said.items()})
    return ("FCALL", functions.ADD, 1, stream, most, "data", data)


def call_of_command(command: Command, origin: str | None, result: str, reason: str) -> tuple[Any, ...]:
    """Return the command that records the result of an operator's command in the audit log.

    The actor is the name in the command: over Redis, nothing verifies this name.
    """
    step = f" step {command.step_id}" if command.step_id else ""
    about = f"{command.plan_id}{step}" if command.plan_id else scope_of(command)
    return call_of(Act(f"command {command.command}", command.actor, origin or "redis", about, result, reason))


def note(client: Redis, act: Act) -> None:
    """Write an act to the audit log. If the server is too full for that, write a warning to this process's log."""
    try:
        functions.call_or_load(client, *call_of(act))
    except OutOfMemoryError as full:
        log.warning("not noted", extra={**act._asdict(), "error": type(full).__name__})


def cut(client: Redis, kept_s: float) -> None:
    """Remove entries older than about `kept_s` seconds. Some older entries stay, because Redis removes whole blocks."""
    oldest = f"{max(0, int((time.time() - kept_s) * 1000))}-0"
    pipeline = client.pipeline(transaction=False)
    for stream in (keys.AUDIT, keys.AUDIT_REFUSALS):
        pipeline.xtrim(stream, minid=oldest, approximate=True, limit=0)
    pipeline.ltrim(keys.POLICY_HISTORY, -policies.MOST_HISTORY, -1)
    pipeline.execute()


def read(client: Redis, since_ms: int = 0) -> Iterator[dict[str, str]]:
    """Yield the acts, refusals and policy changes since `since_ms`, the oldest first."""
    streams = (_entries(client, stream, since_ms) for stream in (keys.AUDIT, keys.AUDIT_REFUSALS))
    return merge(*streams, _policies(client, since_ms), key=lambda entry: entry["at"])


def _entries(client: Redis, stream: str, since_ms: int) -> Iterator[dict[str, str]]:
    after = f"{since_ms}-0"
    while True:
        page: Any = client.xrange(stream, after, count=PAGE)
        for entry, fields in page:
            yield {"at": rfc3339(int(entry.partition(b"-")[0])), **codec.loads(fields[b"data"])}
        if len(page) < PAGE:
            return
        after = f"({page[-1][0].decode()}"


def _policies(client: Redis, since_ms: int) -> Iterator[dict[str, str]]:
    since = rfc3339(since_ms)
    for each in reversed(list(policies.history(client))):
        if each.at >= since:
            about = f"tenant {each.tenant}" if each.tenant else "all tenants without a policy"
            words = {"act": "policy applied" if each.digest else "policy withdrawn", "by": each.by, "from": "redis"}
            yield {"at": each.at, **words, "about": about, "result": DONE, "reason": each.digest or ""}
