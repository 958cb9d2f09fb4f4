"""`planner audit`: the acts of persons and keys, and the refusals."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.console import Json, command, open_link, say, say_json
from worker.cli.target import past
from worker.host.terminal import line

SHOWN = ("at", "result", "act", "by", "from", "about", "reason")


@command
def audit(
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="30m, 2h, 7d, or an RFC 3339 time.")] = "1d",
    as_json: Json = False,
) -> None:
    """List actions and refused requests since a time, with actor and address; the oldest first.

    [b]planner audit --since 7d[/b]

    [b]planner audit --since 90d --json > audit.jsonl[/b]

    The list has commands, sign-ins, keys, policies, dead entries, and refused requests (401, 403). With --json each is
    a line of JSON. PLANNER_AUDIT_DAYS limits their age. No key of the gateway, and no operator of Redis, can change
    them.
    """
    from worker.render.plan import plain
    from worker.store import audit as kept

    after = past("--since", since)
    found = 0
    with open_link(agreed=False) as link:
        for entry in kept.read(link.client, max(0, int(after.timestamp() * 1000)) if after else 0):
            found += 1
            if as_json:
                say_json(entry, line=True)
            else:
                line(plain("  ".join(entry.get(name) or "-" for name in SHOWN)))
    if not found and not as_json:
        say("Nothing was noted since then.")
