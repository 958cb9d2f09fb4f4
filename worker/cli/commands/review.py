"""`planner review`: what waits for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.commands.stats import OfRepository, OfTenant
from worker.cli.console import Json, command, open_planner, say, say_json
from worker.cli.target import past

MOST = 2000  # plans of each list that are looked at

Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Plans made then or later: 2026-11-21T20:30:00Z, 24h, 7d.")
]


@command
def review(since: Since = "30d", tenant: OfTenant = None, repo: OfRepository = None, as_json: Json = False) -> None:
    """List everything that waits for a person, the oldest first: delivered changes to review, and plans that ask.

    [b]planner review --repo acme/shop[/b]

    [b]planner review --json | jq '[.items[].minutes] | add'[/b]

    Minutes are those of reading, at 400 lines an hour as the controller counted them; 5 where it counted none, 2 for a
    question. A change is left out while the planner itself goes on with it, and once it is merged or closed.
    """
    from worker.render.review import draw_review, to_review
    from worker.store.plan_lists import PlanFilter

    begin = past("--since", since)
    with open_planner() as planner:
        asking = planner.plans(PlanFilter(waiting=True, tenant=tenant, repo=repo), MOST)
        ended = planner.plans(PlanFilter(state="COMPLETED", since=begin, tenant=tenant, repo=repo), MOST)
    found = to_review([*asking, *ended])
    minutes = sum(each.minutes for each in found)
    if as_json:
        say_json({"items": [each._asdict() for each in found], "minutes": minutes})
    elif found:
        say(draw_review(found))
        say(f"{len(found)} in all, about {minutes} minutes to read.")
    else:
        say("Nothing waits for a person.")
