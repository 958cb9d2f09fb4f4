"""`planner log`: what happened to a plan, line by line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import Json, command, open_planner
from worker.cli.target import Owner, PlanName, find
from worker.host.terminal import content, line
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from worker.client.planner import Planner

LOOK_S = 1.0


@command
def log(
    plan: PlanName,
    first: Annotated[int, typer.Option("--from", metavar="N", min=1, help="Begin with line N.")] = 1,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The most lines to print. Default: all.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more until the plan has ended.")] = False,
    tenant: Owner = NO_TENANT,
    as_json: Json = False,
) -> None:
    """Print the log of a plan: the input and the moves of each commit.

    [b]planner log ci-4711[/b]

    [b]planner log ci-4711 --follow[/b]

    [b]planner log ci-4711 --from 101 --limit 50[/b]

    [b]planner log ci-4711 --json | jq -c 'select(.revisions) | .revisions[]'[/b]

    With --json each line is printed as it is stored. To keep a log and to verify it, export it:
    [b]planner export ci-4711 --log ci-4711.jsonl[/b]
    """
    from worker.render.log import tell_line

    with open_planner() as planner:
        view = find(planner, plan, tenant)
        found = lines_of(planner, view.plan_id, first - 1, goes_on=follow and view.ended_at is None)
        for number, raw in enumerate(islice(found, limit), first):
            content(raw + b"\n") if as_json else line(tell_line(number, raw))


def lines_of(planner: Planner, plan_id: str, first: int, *, goes_on: bool) -> Iterator[bytes]:
    """Yield the lines of a log from number `first`; if `goes_on`, wait for more lines until the plan has ended."""
    from tasks.record.chain import ends_plan

    while True:
        before = first
        for raw in planner.log(plan_id, first):
            yield raw
            first += 1
            goes_on = goes_on and not ends_plan(raw)
        if not goes_on:
            return
        time.sleep(LOOK_S)
        if first == before:
            # Its end may lie before the first line that is wanted.
            view = planner.plan(plan_id)
            goes_on = view is not None and view.ended_at is None
