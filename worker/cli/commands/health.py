"""`planner health`: whether a worker of this machine lives, and whether it does its work."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from worker.cli.console import FAILED, OK, Json, command, read_settings, say, say_json


@command
def health(
    ready: Annotated[
        bool,
        typer.Option(
            "--ready/--live", help="Check that each worker does its work, or only that a worker is there (the default)."
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Check the workers of this machine.

    By the files that they write to PLANNER_STATE_DIR every second.

    [b]planner health --live[/b]    a worker beats; also while Redis is away, since a restart would not bring that back

    [b]planner health --ready[/b]   every worker here consumes, its Redis answers, and due timers are swept

    Exit code 0 for yes, 1 for no, with one sentence. Needs no connection. Workers of other machines are not seen;
    several planners on one machine need a PLANNER_STATE_DIR each.
    """
    from worker.telemetry.status import living_workers

    settings = read_settings()
    workers, now = living_workers(settings), time.time()
    troubles = [f"worker {one.pid}: {trouble}" for one in workers if ready for trouble in one.troubles(now)]
    if not workers:
        troubles = [f"no worker of this machine beats in {settings.state}"]
    asked, count = "ready" if ready else "live", "1 worker" if len(workers) == 1 else f"{len(workers)} workers"
    sentence = f"Not {asked}: {'; '.join(troubles)}." if troubles else f"{asked.capitalize()}: {count}."
    if as_json:
        found = [one.model_dump(mode="json") for one in workers]
        say_json({"ok": not troubles, "detail": sentence, "workers": found})
    else:
        say(sentence)
    return FAILED if troubles else OK
